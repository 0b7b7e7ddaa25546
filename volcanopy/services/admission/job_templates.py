"""The JobTemplates that a reviewed flow names, read from the API server: few reviews need them, so no watch keeps them."""

import asyncio
from collections.abc import Sequence

import structlog

from volcanopy.api.flow import JobTemplate
from volcanopy.api.model import InvalidObjectError
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import NotFound
from volcanopy.kube.client.raw_kinds import TEMPLATES

log = structlog.get_logger(__name__)

DEADLINE = 3.0
"""Seconds for all of them."""
_AT_ONCE = 16


async def job_templates(client: Client, namespace: str, names: Sequence[str]) -> dict[str, JobTemplate]:
    """Return the existing JobTemplates of the API that the client is a view of, by name. Raises KubeError, TimeoutError."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def read(name: str) -> JobTemplate | None:
        try:
            async with slots:
                manifest = await client.get(TEMPLATES, namespace, name)
            return JobTemplate.read(manifest)
        except NotFound:
            return None
        except InvalidObjectError as error:
            log.warning("invalid JobTemplate ignored", key=f"{namespace}/{name}", error=str(error))
            return None

    async with asyncio.timeout(DEADLINE):
        templates = await asyncio.gather(*map(read, names))
    return {name: template for name, template in zip(names, templates, strict=True) if template is not None}

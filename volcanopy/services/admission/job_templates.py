"""The JobTemplates that a reviewed flow names, read from the API server: few reviews need them, so no watch keeps them."""

import asyncio
from collections.abc import Sequence

import structlog

from volcanopy.api.bindings import Binding
from volcanopy.api.flow import JobTemplate
from volcanopy.api.model import InvalidObjectError
from volcanopy.api.volcano import bound as model_of
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import NotFound
from volcanopy.kube.client.raw_kinds import TEMPLATES, bound

log = structlog.get_logger(__name__)

DEADLINE = 3.0
"""Seconds for all of them."""
_AT_ONCE = 16


async def job_templates(
    client: Client, binding: Binding, namespace: str, names: Sequence[str]
) -> dict[str, JobTemplate]:
    """Return the existing JobTemplates of an API by name. Raises KubeError, TimeoutError."""
    kind, model = bound(TEMPLATES, binding), model_of(JobTemplate, binding)
    slots = asyncio.Semaphore(_AT_ONCE)

    async def read(name: str) -> JobTemplate | None:
        try:
            async with slots:
                manifest = await client.get(kind, namespace, name)
            return model.read(manifest)
        except NotFound:
            return None
        except InvalidObjectError as error:
            log.warning("invalid JobTemplate ignored", key=f"{namespace}/{name}", error=str(error))
            return None

    async with asyncio.timeout(DEADLINE):
        templates = await asyncio.gather(*map(read, names))
    return {name: template for name, template in zip(names, templates, strict=True) if template is not None}

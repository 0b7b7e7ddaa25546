"""Every malformed or hostile review gets a JSON response. (Its duration is measured in bench/admission.py.)"""

import asyncio
import json
from dataclasses import replace
from typing import Any

import msgspec
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import HealthCheck, given, settings

from tests.admission.golden_cases import world
from tests.admission.hostile import reviews
from tests.nightly import examples
from volcanopy.admission.context import DryRun, DryRunResult
from volcanopy.admission.pod_dry_run import dry_runs
from volcanopy.admission.request import Request
from volcanopy.admission.review import mutate, review, validate
from volcanopy.api.model import Json
from volcanopy.installed.job_plugins import job_registry
from volcanopy.services.admission.admission_service import application, read
from volcanopy.services.admission.pod_dry_run import pod_maker

WORLD = replace(
    world(
        {
            "queues": [
                {"name": "science", "deserved": {"cpu": "4"}, "capability": {"cpu": "8"}},
                {"name": "physics", "parent": "science", "submitters": {"users": ["alice"]}},
                {"name": "old", "state": "Closed"},
            ],
            "nodes": [{"cpu": "4", "memory": "8Gi"}],
        }
    ),
    make_pod=pod_maker(job_registry()),
)


@settings(suppress_health_check=list(HealthCheck), deadline=None)
@given(reviews(huge=False))
def test_every_review_gets_a_response(body: Any) -> None:
    if not isinstance(body, dict):
        return
    asked = _asked(body)
    context = replace(WORLD, dry_runs=tuple((request, DryRunResult(0, "silent")) for request in asked))
    for answer in (review(body, WORLD), validate(body, context), mutate(body, WORLD)):
        response = json.loads(json.dumps(answer))["response"]
        assert isinstance(response["allowed"], bool)
        assert response["allowed"] or response["status"]["message"]


def _asked(body: Json) -> tuple[DryRun, ...]:
    request = Request.of(body)
    return dry_runs(request, WORLD) if request is not None else ()


@settings(examples(25), suppress_health_check=list(HealthCheck))
@given(reviews())
def test_huge_reviews_get_a_response(body: Any) -> None:
    try:
        result = read(json.dumps(body).encode())
        _asked(result)
    except ValueError:
        assert not isinstance(body, dict) or not isinstance(body.get("request"), dict) or not _is_json(body)
        return
    assert isinstance(validate(result, WORLD)["response"]["allowed"], bool)


def _is_json(body: Any) -> bool:
    """Whether the strict decoder takes it: numbers of any size are Python's own."""
    try:
        msgspec.json.decode(json.dumps(body))
    except (ValueError, RecursionError):
        return False
    return True


def test_other_objects_than_reviews_are_rejected_in_json() -> None:
    async def asked() -> None:
        async def judge(body: Json) -> Json:
            return validate(body, WORLD)

        async with TestClient(TestServer(application({"mutate": judge, "validate": judge}))) as client:
            for path in ("/validate", "/mutate"):
                for body in (b"", b"{", b"[" * 100_000, b"\xff", b"[]", b'{"request": 5}', b"null", b"1e9999"):
                    reply = await client.post(path, data=body)
                    assert reply.status < 500
                    assert isinstance(await reply.json(), dict)
            large = await client.post("/validate", data=b" " * (4 * 1024 * 1024))
            assert large.status == 413
            assert "error" in await large.json()
            for path in ("/metrics", "/readyz"):
                assert (await client.get(path)).status == 404, "they have a listener of their own"

    asyncio.run(asked())

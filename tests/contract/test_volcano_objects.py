"""The status of every object that Volcano admits can be written, on both servers."""

from typing import Any

import pytest

from contract.objects import DEFINITIONS
from contract.servers import MERGE, Server, Step
from volcanopy.api.bindings import VOLCANO
from volcanopy.api.volcano_crds import crds_of

pytestmark = pytest.mark.real
Json = dict[str, Any]
TASK = {"name": "w", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}}
OBJECTS: dict[str, tuple[Json, Json]] = {
    "jobs": (
        {"metadata": {"name": "train-v1.2"}, "spec": {"tasks": [TASK]}},
        {"state": {"phase": "Running"}},
    ),
    "cronjobs": (
        {
            "metadata": {"name": "c" * 60},
            "spec": {"schedule": "@hourly", "jobTemplate": {"spec": {"tasks": [TASK]}}},
        },
        {"lastScheduleTime": "2026-01-01T00:00:00Z"},
    ),
    "jobflows": (
        {"metadata": {"name": f"f.{'f' * 60}"}, "spec": {"flows": [{"name": "t"}]}},
        {"state": {"phase": "Running"}},
    ),
    "queues": ({"metadata": {"name": "own-parent"}, "spec": {"parent": "own-parent"}}, {"state": "Open"}),
}


async def test_the_status_of_an_object_that_volcano_admits_can_be_written(pair: tuple[Server, Server]) -> None:
    definitions = {each["spec"]["names"]["plural"]: each for each in crds_of((VOLCANO,))}
    for server in pair:
        for plural, (manifest, status) in OBJECTS.items():
            definition = definitions[plural]
            group, version = definition["spec"]["group"], definition["spec"]["versions"][0]["name"]
            namespace = "namespaces/default/" if definition["spec"]["scope"] == "Namespaced" else ""
            path = f"/apis/{group}/{version}/{namespace}{plural}"
            await server.ask(Step("POST", DEFINITIONS, definition), "")
            await server.settled(Step("GET", path, code=200), "")
            body = {"apiVersion": f"{group}/{version}", "kind": definition["spec"]["names"]["kind"], **manifest}
            created = await server.ask(Step("POST", path, body), "")
            assert (server.name, created.code) == (server.name, 201), created.body
            name = manifest["metadata"]["name"]
            written = await server.ask(Step("PATCH", f"{path}/{name}/status", {"status": status}, MERGE), "")
            assert (server.name, written.code) == (server.name, 200), written.body
            await server.ask(Step("DELETE", f"{path}/{name}"), "")
            await server.ask(Step("DELETE", f"{DEFINITIONS}/{definition['metadata']['name']}"), "")

"""The golden cases of admission as a user meets them: asked by kubectl, judged by the service, on both API servers."""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from embedded_apiserver.server import ApiServer
from tests.admission.golden_cases import cases, read
from tests.controlplane.fixtures import kubectl_program, real_control_plane
from tests.controlplane.plane import ControlPlane
from tests.nightly import nightly
from tests.servers import SERVERS
from tests.services.golden_cluster import KINDS, WORLD, KubectlResult, Stage, existing_object, stage
from tests.services.service_cluster import install_kinds
from volcanopy.api import names
from volcanopy.api.model import Json
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import NotFound
from volcanopy.kube.client.kubeconfig import load_connection
from volcanopy_local.cluster import self_signed

__all__ = ["kubectl_program", "real_control_plane"]

_VERBS = {"CREATE": "apply", "UPDATE": "replace", "DELETE": "delete"}
_DOING = {"CREATE": "creating", "UPDATE": "replacing", "DELETE": "deleting"}
_APPLIED = (
    "doubt-no-replicas",
    "job-plain",
    "job-queue-missing",
    "landing-namespace",
    "origin-forged",
    "podgroup-landing",
    "queue-path-begins-at-root",
    "queue-sum-of-deserved",
    "submitter-not",
    "submitter-user",
)


@pytest.fixture(params=SERVERS)
async def played(
    request: pytest.FixtureRequest, kubectl_program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stage]:
    """Admission at work on an API server, and kubectl."""
    if request.param == "real":
        plane: ControlPlane = request.getfixturevalue("real_control_plane")
        async with stage(plane.kubeconfig, kubectl_program, tmp_path, monkeypatch) as result:
            yield result
        return
    server = await ApiServer.start(tls=self_signed())
    try:
        config = tmp_path / "kubeconfig"
        config.write_text(server.kubeconfig())
        async with Client(load_connection(config)) as client:
            await install_kinds(client)
        async with stage(config, kubectl_program, tmp_path, monkeypatch) as result:
            yield result
    finally:
        await server.stop()


class Case:
    """A golden case: the request, its user, the cluster state, and the expected output of kubectl."""

    def __init__(self, name: str) -> None:
        self.name, self.said, self.agreed = name, read(name, "input"), read(name, "output")
        self.object: Json = self.said.get("object") or self.said["old"]
        self.operation: str = self.said.get("operation", "CREATE")
        self.user: str = self.said.get("user", "alice")
        self.groups: list[str] = self.said.get("groups", [])
        own = self.agreed.get("kubectl")
        self.allowed: bool = self.agreed["allowed"] and own is None
        self.warnings = [f"Warning: {warning}" for warning in self.agreed.get("warnings", ())] if own is None else []
        self.alone = name if own is not None else ""

    @property
    def world(self) -> str:
        """The key that distinguishes cluster states."""
        return json.dumps([*(self.said.get(part) for part in WORLD), existing_object(self.said)], sort_keys=True)

    @property
    def asking(self) -> tuple[Any, ...]:
        """Cases with equal keys run in one batch."""
        return (self.world, self.operation, self.user, self.groups, self.allowed, self.alone)

    def refusal(self, line: str, *, alone: bool) -> list[str]:
        """The problems in a line of kubectl, without the surrounding text."""
        begins = "The request is invalid" if alone else "Error from server (Invalid)"
        start = f'{begins}: error when {_DOING[self.operation]} "{self.name}.json": admission webhook "'
        webhook, _, message = line.removeprefix(start).partition('.volcanopy.io" denied the request: ')
        assert line.startswith(start), line
        assert webhook.partition(".")[2] in {"validate", "review"}, line
        return sorted(message.split("; "))

    @property
    def path(self) -> tuple[Any, ...]:
        """Cases with equal paths are alike for kubectl and the API server: only the rules of admission differ."""
        return (self.object["kind"], self.operation, self.allowed, self.alone)


def batches(*, every: bool) -> Iterator[list[Case]]:
    """All cases, those together that can be asked at once; unless ``every``, one batch for each path."""
    ordered = sorted(map(Case, cases()), key=lambda case: json.dumps(case.asking))
    paths: set[tuple[Any, ...]] = set()
    for _, result in groupby(ordered, key=lambda case: case.asking):
        batch = list(result)
        if every or not {case.path for case in batch} <= paths:
            yield batch
        paths |= {case.path for case in batch}


@pytest.mark.slow("calls kubectl for each of 166 cases, by day for one of each kind and operation")
@pytest.mark.parametrize("every", [pytest.param(False, id="paths"), pytest.param(True, id="all", marks=nightly)])
async def test_kubectl_prints_the_golden_message(played: Stage, every: bool) -> None:
    """Cases as a dry run: the printed rejections and warnings, and the objects as they would be stored."""
    wrong: list[str] = []
    world = ""
    for batch in batches(every=every):
        first = batch[0]
        if first.world != world:
            world = first.world
            await played.make(first.said)
        answers = () if first.operation == "DELETE" or not first.allowed else ("-o", "json")
        printed = await _ask(played, batch, "--dry-run=server", *answers)
        try:
            _compare(batch, printed)
        except AssertionError as difference:
            message = "\n  ".join([*printed.told, str(difference)])
            wrong.append(f"{', '.join(case.name for case in batch)}: {printed.status}\n  {message}")
    assert not wrong, "\n".join(wrong)


async def _ask(played: Stage, batch: Sequence[Case], *options: str) -> KubectlResult:
    first = batch[0]
    for case in batch:
        played.write(case.name, case.object)
    files = [f"-f={case.name}.json" for case in batch]
    return await played.kubectl(_VERBS[first.operation], *options, *files, user=first.user, groups=first.groups)


def _compare(batch: Sequence[Case], printed: KubectlResult) -> None:
    first = batch[0]
    if first.alone:
        # A real server looks through the fields of an object in no order.
        assert sorted(printed.told) == sorted(first.agreed["kubectl"])
        return
    warnings = list(dict.fromkeys(line for case in batch for line in case.warnings))
    assert [line for line in printed.told if line.startswith("Warning: ")] == warnings
    reported = [line for line in printed.told if not line.startswith("Warning: ")]
    assert (printed.status == 0) == first.allowed
    if not first.allowed:
        problems = [case.refusal(line, alone=len(batch) == 1) for case, line in zip(batch, reported, strict=True)]
        assert problems == [sorted(case.agreed["problems"]) for case in batch]
        return
    assert not reported
    if first.operation != "DELETE":
        document = json.loads(printed.out)
        made = document["items"] if len(batch) > 1 else [document]
        for case, entry in zip(batch, made, strict=True):
            _filled_in(case, entry)


def _filled_in(case: Case, manifest: Json) -> None:
    """What was agreed to be filled in is there."""
    for operation in case.agreed.get("patch", ()):
        value: Any = manifest
        for step in operation["path"].split("/")[1:]:
            value = value[step.replace("~1", "/").replace("~0", "~")]
        assert _holds(value, operation["value"], case), (operation, value)


def _holds(value: Any, wanted: Any, case: Case) -> bool:
    """Whether the expected fields are there; the API server adds defaults, and default groups."""
    if isinstance(wanted, dict):
        return all(key in value and _holds(value[key], item, case) for key, item in wanted.items())
    if isinstance(wanted, list):
        return len(value) == len(wanted) and all(_holds(*pair, case) for pair in zip(value, wanted, strict=True))
    if isinstance(wanted, str) and wanted.startswith("["):
        return set(json.loads(wanted)) <= set(json.loads(value))
    return bool(value == wanted)


async def test_admitted_objects_are_stored_as_in_the_golden_files(played: Stage) -> None:
    """Some cases once more, not as a dry run."""
    for case in map(Case, _APPLIED):
        await played.make(case.said)
        printed = await _ask(played, [case])
        kind, namespace = KINDS[case.object["kind"]], case.object["metadata"].get("namespace")
        name = case.object["metadata"]["name"]
        try:
            kept: Json | None = await played.client.get(kind, namespace, name)
        except NotFound:
            kept = None
        assert (kept is not None) == case.allowed, printed
        if kept is not None:
            _filled_in(case, kept)
            assert kept["metadata"]["annotations"].get(names.SUBMITTED_BY) in {case.user, None}
            await played.client.delete(kind, namespace, name)

"""Volcano's examples, unchanged, against volcanopy: `VOLCANO_SOURCE=folder python -m tests.volcano_e2e.examples [part of a name ...]`.

The files of Volcano's ``example`` folder, and the complete objects in the blocks of its user guides, are created as
`kubectl apply` would: those of a folder together, those of a guide one after another. Prints what became of each: it runs,
is accepted (nothing in it runs by itself), waits for a stated reason, or is refused. Exits with 1 if one does none of these,
or is refused for a reason that is not among the known ones.
"""

import asyncio
import contextlib
import logging
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import structlog
import yaml

from hack.gobuild import BuildError
from tests.volcano_e2e import world
from tests.volcano_e2e.building import source_folder
from tests.volcano_e2e.exceptions import REFUSED_EXAMPLES
from volcanopy.api.bindings import VOLCANO
from volcanopy.api.config_file import ConfigError
from volcanopy.client.manifests import CreateError, Creator
from volcanopy.kube.client import raw_kinds
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import KubeError, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.kubeconfig import read_kubeconfig
from volcanopy.kube.client.raw_kinds import bound
from volcanopy.scheduler import core
from volcanopy.scheduler.policy.config import parse

CONFIG = "volcano-scheduler.conf"
SECONDS = 120.0
"""The longest time until an example has an outcome."""
SETTLED = 8.0
"""Seconds for which the reason to wait must stay the same."""
PERIOD = 0.5
_GROUPS = bound(raw_kinds.POD_GROUPS, VOLCANO)
_BLOCK = re.compile(r"^([ \t]*)```[a-z]*[ \t]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_RUNNING = {"Running", "Completing", "Completed", "Succeeded", "Succeed"}
_DONE = {"Running", "Succeeded"}
_WAIT = {"Job", "JobFlow", "Pod", "Deployment", "ReplicaSet", "StatefulSet"}
"""Kinds that have pods sooner or later; all others are accepted or refused."""


@dataclass
class Example:
    """One file, or one block of a guide, and what became of it."""

    name: str
    place: str
    """The folder or guide."""
    objects: list[Json] = field(default_factory=list)
    unreadable: str = ""
    made: list[tuple[Kind[Json], Json]] = field(default_factory=list)
    outcome: str = ""
    """``runs``, ``accepted``, ``waits`` or ``refused``; empty where there is none."""
    reason: str = ""

    @property
    def explained(self) -> bool:
        """Whether the outcome is one that the project stands for."""
        if self.outcome == "refused":
            return any(part in self.name for part in REFUSED_EXAMPLES)
        return bool(self.outcome) and (self.outcome != "waits" or bool(self.reason))

    def line(self) -> str:
        """Return the row of the table."""
        known = next((why for part, why in REFUSED_EXAMPLES.items() if part in self.name), "")
        why = f" ({known})" if known and self.outcome == "refused" else ""
        mark = "" if self.explained else "NOT EXPLAINED: "
        return f"  {mark}{self.name}: {self.outcome or 'no outcome'}{': ' if self.reason else ''}{self.reason}{why}"


def examples(source: Path) -> list[Example]:
    """Return the examples of Volcano's source, those of one folder or guide after each other."""
    folder, guides = source / "example", source / "docs" / "user-guide"
    found = [
        _example(str(file.relative_to(source)), str(file.parent.relative_to(source)), file.read_text())
        for file in sorted(folder.rglob("*.yaml"), key=lambda file: (file.parent, file.name))
    ]
    for guide in sorted(guides.glob("*.md")):
        name = str(guide.relative_to(source))
        for number, text in enumerate(blocks(guide.read_text()), 1):
            found.append(_example(f"{name} block {number}", name, text))
    return found


def blocks(text: str) -> Iterator[str]:
    """Yield the blocks of a Markdown page that begin with a complete object."""
    for match in _BLOCK.finditer(text):
        indent, block = match.groups()
        lines = [line.removeprefix(indent) for line in block.splitlines()]
        if {"apiVersion", "kind"} <= {line.partition(":")[0] for line in lines}:
            yield "\n".join(lines)


def _example(name: str, place: str, text: str) -> Example:
    example = Example(name, place)
    try:
        example.objects = [body for body in yaml.safe_load_all(text) if isinstance(body, dict)]
    except yaml.YAMLError as error:
        example.unreadable = " ".join(str(error).split())
    return example


def main(argv: Sequence[str] | None = None) -> int:
    """Create the examples and print the table."""
    parts = sys.argv[1:] if argv is None else argv
    try:
        source = source_folder()
    except BuildError as error:
        print(f"examples: skipped: {error}")
        return 0
    chosen = [each for each in examples(source) if not parts or any(part in each.name for part in parts)]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with world.control_plane() as plane, tempfile.TemporaryDirectory() as folder:
        asyncio.run(_run(chosen, source, plane.kubeconfig, Path(folder)))
    outcomes = Counter(each.outcome or "no outcome" for each in chosen)
    counts = ", ".join(f"{outcome} {count}" for outcome, count in sorted(outcomes.items()))
    print(f"together: {len(chosen)} examples: {counts}")
    return int(not all(each.explained for each in chosen))


async def _run(chosen: list[Example], source: Path, kubeconfig: Path, folder: Path) -> None:
    text = (source / "installer" / "helm" / "chart" / "volcano" / "config" / CONFIG).read_text()
    file = folder / world.CONFIG
    file.write_text(text)
    async with (
        Client(read_kubeconfig((kubeconfig,))) as client,
        world.running(kubeconfig, file, world.objects(text)),
    ):
        for place, group in groupby(chosen, key=lambda example: example.place):
            together = list(group)
            await _together(client, together)
            print(place, *(example.line() for example in together), sep="\n", flush=True)


async def _together(client: Client, group: list[Example]) -> None:
    """Create the examples of a folder or guide, wait for the outcome of each, and delete them."""
    # A file may need the queue or the priority class of another one: what has no pods is created first.
    workloads = [example for example in group if _has_pods(example)]
    others = [example for example in group if not _has_pods(example)]
    for example in others:
        await _create(Creator(client), example)
    # Blocks of a guide are variants of one object, often with the same name.
    for step in [[example] for example in workloads] if group[0].place.endswith(".md") else [workloads]:
        for example in step:
            await _create(Creator(client), example)
        try:
            await asyncio.gather(*(_settle(client, example) for example in step if not example.outcome))
        finally:
            await _delete(client, step)
    await _delete(client, others)


def _has_pods(example: Example) -> bool:
    return any(body.get("kind") in _WAIT for body in example.objects)


async def _create(creator: Creator, example: Example) -> None:
    if example.unreadable:
        example.outcome, example.reason = "refused", f"not YAML: {example.unreadable}"
        return
    for body in example.objects:
        try:
            example.made += [(await creator.kind(body), made) for made in await creator.create([body])]
            _check_configuration(body)
        except (CreateError, KubeError, ConfigError) as error:
            example.outcome, example.reason = "refused", " ".join(str(error).split())
            return
    if not _has_pods(example):
        example.outcome = "accepted"


def _check_configuration(body: Json) -> None:
    """Read the scheduler's configuration in a ConfigMap. Raises ConfigError."""
    if body["kind"] == "ConfigMap":
        for name, text in (body.get("data") or {}).items():
            if name.startswith("volcano-scheduler") and name.endswith(".conf"):
                parse(text, core.builtin())


async def _settle(client: Client, example: Example) -> None:
    """Wait until all pods of an example run, or the reason to wait stays the same."""
    started = since = time.monotonic()
    before = ""
    while time.monotonic() - started < SECONDS:
        states = [await _state(client, kind, body) for kind, body in example.made if kind.kind in _WAIT]
        waiting = [reason for runs, reason in states if not runs]
        if not waiting:
            example.outcome = "runs"
            return
        reason = "; ".join(waiting)
        if reason != before:
            before, since = reason, time.monotonic()
        if all(waiting) and time.monotonic() - since > SETTLED:
            example.outcome, example.reason = "waits", reason
            return
        await asyncio.sleep(PERIOD)
    example.reason = before


async def _state(client: Client, kind: Kind[Json], body: Json) -> tuple[bool, str]:
    """Return whether an object runs, and otherwise why not: empty if nothing says it."""
    metadata = body["metadata"]
    namespace = metadata.get("namespace")
    seen = await client.get(kind, namespace, metadata["name"])
    status = seen.get("status") or {}
    if kind.group == VOLCANO.group("batch.volcanopy.io") or kind.kind == "JobFlow":
        phase = (status.get("state") or {}).get("phase")
        if phase in _RUNNING:
            return True, ""
        stated = _messages(status.get("conditions") or ())
        return False, "; ".join(stated) or await _reason_of_group(
            client, namespace, f"{metadata['name']}-{metadata['uid']}"
        )
    pods = [seen]
    if kind.kind != "Pod":
        labels = seen["spec"]["selector"]["matchLabels"].items()
        listed = (await client.list(raw_kinds.PODS, namespace)).items
        pods = [pod for pod in listed if labels <= (pod["metadata"].get("labels") or {}).items()]
        if len(pods) < seen["spec"].get("replicas", 1):
            return False, "; ".join(_messages(status.get("conditions") or ()))
    waiting = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in _DONE]
    return not waiting, next((why for pod in waiting if (why := _reason_of_pod(pod))), "")


async def _reason_of_group(client: Client, namespace: str | None, name: str) -> str:
    with contextlib.suppress(NotFound):
        group = await client.get(_GROUPS, namespace, name)
        return next(iter(_messages((group.get("status") or {}).get("conditions") or ())), "")
    return ""


def _reason_of_pod(pod: Json) -> str:
    gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next(iter(_messages(conditions)), "") or (f"gates {', '.join(gates)}" if gates else "")


def _messages(conditions: Iterable[Json]) -> list[str]:
    """The messages of the conditions that something waits for."""
    return [
        str(each["message"])
        for each in conditions
        if each.get("message") and (each["status"] == "True") == (each["type"] in {"Unschedulable", "ReplicaFailure"})
    ]


async def _delete(client: Client, examples: Iterable[Example]) -> None:
    """Delete all objects, and wait until no pod is left: the next example finds the nodes free."""
    left = [each for example in examples for each in reversed(example.made)]
    async with asyncio.timeout(SECONDS):
        while True:
            left = [each for each in left if not await _gone(client, *each)]
            if not left and not (await client.list(raw_kinds.PODS)).items:
                return
            await asyncio.sleep(PERIOD)


async def _gone(client: Client, kind: Kind[Json], body: Json) -> bool:
    """Delete an object unless something uses it, and return whether it does not exist any more."""
    metadata = body["metadata"]
    try:
        await client.delete(kind, metadata.get("namespace"), metadata["name"])
    except NotFound:
        return True
    except KubeError:
        return False
    return False


if __name__ == "__main__":
    sys.exit(main())

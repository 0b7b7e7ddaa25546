"""Scenarios of another system with its decisions, read from an optional folder.

Each file is a list of scenarios: Kubernetes objects, a configuration, the actions to run in one session, and the
expected result. The folder is named by the environment variable VOLCANOPY_CONFORMANCE; without it, it is looked for beside the
checkout.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from volcanopy.api import core, topology_read
from volcanopy.api.builtin import devices, policy, storage
from volcanopy.scheduler.cache.cluster_cache import Object, State
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy.scheduler.policy.hook_table import SWITCHES
from volcanopy_testing.notation import NOW

FOLDER = Path(
    os.environ.get("VOLCANOPY_CONFORMANCE") or Path(__file__).parents[2].resolve().parent / "shared" / "conformance"
)

KINDS: dict[str, type[Any]] = {
    "priorityClasses": core.PriorityClass,
    "queues": core.Queue,
    "resourceQuotas": policy.ResourceQuota,
    "nodes": core.Node,
    "storageClasses": storage.StorageClass,
    "pvs": storage.PersistentVolume,
    "pvcs": storage.PersistentVolumeClaim,
    "deviceClasses": devices.DeviceClass,
    "resourceSlices": devices.ResourceSlice,
    "resourceClaims": devices.ResourceClaim,
    "podGroups": core.PodGroup,
    "pods": core.Pod,
}
"""The objects that a scenario may hold, by key, in the order in which they are fed."""

_SWITCH = {name.removeprefix("enabled").removeprefix("enable").lower(): name for name in SWITCHES}


@dataclass(frozen=True)
class Scenario:
    """A world with its expected result."""

    file: str
    said: Mapping[str, Any] = field(repr=False)

    @property
    def name(self) -> str:
        """The unique name of the scenario."""
        return f"{self.file}:{self.said['line']} {self.said['name']}"

    @property
    def kind(self) -> str:
        """``session`` or ``custom``."""
        return str(self.said["kind"])

    @property
    def expected(self) -> Mapping[str, Any]:
        """The expected result."""
        verdict: Mapping[str, Any] = self.said["expect"]
        return verdict

    def state(self) -> State:
        """Return the state with all objects of the scenario."""
        state = State()
        for obj in self.objects():
            state.upsert(obj)
        return state

    def snapshot(self) -> Snapshot:
        """Return the snapshot of the scenario."""
        return self.state().snapshot(NOW, "conformance")

    def objects(self) -> Iterator[Object]:
        """The scenario's objects."""
        said = self.said
        for key, kind in KINDS.items():
            for obj in said.get(key) or ():
                yield msgspec.convert(_absolute(obj), kind)
        for name, entry in (said.get("hyperNodes") or {}).items():
            hypernode = msgspec.convert(_absolute(entry["hyperNode"]), topology_read.HyperNode)
            # a name is its key: in some scenarios an object is listed under another's as well
            yield replace(hypernode, metadata=replace(hypernode.metadata, name=name))

    def config(self) -> SchedulerConfig:
        """The scenario's configuration: a switch that it does not name is off."""
        registry = builtin()
        tiers = [
            {"plugins": [plugin_entry(entry) for entry in tier["plugins"] if entry.get("registered", True)]}
            for tier in self.said["config"]["tiers"]
        ]
        document = {
            "actions": ", ".join(self.said["actions"]) or "allocate",
            "tiers": tiers,
            "configurations": self.said["config"]["configurations"] or [],
        }
        return parse(json.dumps(document), registry)


def plugin_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration entry of a plugin; switches that the scenario does not name are off."""
    on = {_SWITCH[flag.lower()]: value for flag, value in entry["enabled"].items()}
    return {"name": entry["name"], "arguments": entry.get("arguments") or {}, **dict.fromkeys(SWITCHES, False), **on}


def _absolute(obj: Any) -> Any:
    """Return the value with times relative to now replaced by absolute times."""
    if isinstance(obj, dict):
        if obj.keys() == {"nowPlusSeconds"}:
            return (NOW + timedelta(seconds=obj["nowPlusSeconds"])).isoformat()
        return {key: _absolute(value) for key, value in obj.items()}
    return [_absolute(value) for value in obj] if isinstance(obj, list) else obj


def scenarios(kind: str) -> list[Scenario]:
    """Return all scenarios of a kind; none if the folder does not exist."""
    result = [
        Scenario(path.stem, said)
        for path in sorted(FOLDER.glob("*.json"))
        for said in json.loads(path.read_text("utf-8"))
    ]
    return [scenario for scenario in result if scenario.kind == kind]

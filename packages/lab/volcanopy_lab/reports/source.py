"""The input of a simulation: a cluster and a workload, from files or generators, for any seed."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
import yaml

from volcanopy.api import core, names, quantity
from volcanopy.api.decoding import convert
from volcanopy.api.messages import yaml_problem
from volcanopy.client.errors import CommandError
from volcanopy.client.files import text_of
from volcanopy.scheduler.cache.cluster_cache import Object
from volcanopy.scheduler.model.measures import annotation
from volcanopy.services.scheduler import replay
from volcanopy.whatif import kinds
from volcanopy.whatif.kinds import KINDS, ManifestError
from volcanopy_lab.simulate import generators
from volcanopy_lab.simulate.cluster_description import equal_nodes, queues, read_description, with_default_queue
from volcanopy_lab.simulate.inputs import detected, read_openb_nodes, read_workload
from volcanopy_lab.simulate.workload import Job, WorkloadError, load_of, scaled, windowed

GENERATORS: Mapping[str, Callable[..., list[Job]]] = {
    "lublin": generators.lublin,
    "poisson": generators.poisson,
    "ml": generators.ml_mix,
}
"""Generated workloads by name."""
_HINT = f"; generators are {', '.join(GENERATORS)}"
_ARGUMENTS: Mapping[str, Mapping[str, type]] = {
    "lublin": {"jobs": int, "cpus": int, "load": float, "recurring": float},
    "poisson": {"jobs": int, "cpus": int, "load": float, "recurring": float, "run_time": float, "cycle": float},
    "ml": {"jobs": int, "gpus": int, "load": float, "recurring": float, "days": float},
}
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class SimulationInput:
    """A cluster and a workload. Empty texts stand for the default cluster of a generator."""

    workload: str
    """``NAME`` or ``NAME:key=value,...`` of a generator; the name of a file otherwise."""
    cluster: str = ""
    """Name of the file of the cluster."""
    kind: str = ""
    """Format of the workload, by default detected from the file."""
    load: float = 0.0
    window: tuple[float, float] = (0.0, math.inf)
    pod_cpus: int = 1

    @property
    def generator(self) -> str:
        """The name of the generator; empty for a file."""
        name = self.workload.partition(":")[0]
        return name if name in GENERATORS else ""

    def read(self, seed: int) -> "Input":
        """Return the cluster and the jobs for a seed. Raises CommandError."""
        try:
            objects = self._objects()
            jobs, notes = self._jobs(objects, seed)
        except WorkloadError as error:
            raise CommandError(str(error)) from None
        lacking = sorted(
            {job.queue for job in jobs} - {item.metadata.name for item in objects if isinstance(item, core.Queue)}
        )
        if lacking:
            notes.append(f"queues of the workload that the cluster lacks have weight 1: {', '.join(lacking)}")
        return Input([*objects, *queues(dict.fromkeys(lacking, 1))], jobs, tuple(notes))

    def _objects(self) -> list[Object]:
        if self.cluster:
            return read_cluster(self.cluster)
        if not self.generator:
            text_of(self.workload, "workload", _HINT)
            raise CommandError("--cluster: give the description of a cluster, or a snapshot; see docs/simulate.md", 2)
        arguments = self._arguments()
        if self.generator == "ml":
            room = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8"}
            nodes = equal_nodes(math.ceil(arguments.get("gpus", 128) / 8), room)
            return with_default_queue([*nodes, *queues(generators.ML_QUEUES)])
        return with_default_queue(
            equal_nodes(math.ceil(arguments.get("cpus", 128) / 8), {"cpu": "8", "memory": "64Gi"})
        )

    def _jobs(self, objects: list[Object], seed: int) -> tuple[list[Job], list[str]]:
        nodes = [item for item in objects if isinstance(item, core.Node)]
        notes: list[str] = []
        if self.generator:
            jobs = GENERATORS[self.generator](**self._arguments(), seed=seed)
        else:
            machine = _largest(nodes)
            known, remarks = _trace(self.workload, self.kind, self.pod_cpus, machine)
            jobs, notes = list(known), list(remarks)
        if self.window != (0.0, math.inf):
            jobs = windowed(jobs, *self.window)
            if not jobs:
                raise WorkloadError("--window: no job is submitted then")
        if self.load:
            now = load_of(jobs, _capacity(nodes))
            if not now:
                raise WorkloadError(
                    "--load: the workload has no load: its jobs do not end, or are all submitted at once"
                )
            jobs = scaled(jobs, self.load / now)
        return jobs, notes

    def _arguments(self) -> dict[str, Any]:
        """Return the arguments of the generator. Raises WorkloadError."""
        known = _ARGUMENTS[self.generator]
        result: dict[str, Any] = {}
        for part in filter(None, self.workload.partition(":")[2].split(",")):
            name, _, text = part.partition("=")
            if name not in known:
                raise WorkloadError(f"{self.generator}: unknown argument {name!r}; known are {', '.join(known)}")
            try:
                result[name] = known[name](text)
            except ValueError:
                what = "a whole number" if known[name] is int else "a number"
                raise WorkloadError(f"{self.generator}: {name} must be {what}, not {text!r}") from None
            least = 0 if name in {"recurring", "cycle"} else 1e-9
            if result[name] < least:
                raise WorkloadError(
                    f"{self.generator}: {name} must be {'at least' if not least else 'greater than'} 0, not {text}"
                )
        return result


@dataclass(frozen=True)
class Input:
    """What a run works on, and notes on how it was read."""

    objects: list[Object]
    jobs: list[Job]
    notes: tuple[str, ...]


def read_cluster(name: str) -> list[Object]:
    """Return the objects of a file: a description, a node list of openb, or the list of a snapshot. Raises CommandError."""
    text = text_of(name, "--cluster")
    try:
        if name.endswith(".csv"):
            return with_default_queue(read_openb_nodes(text.splitlines()))
        content = _content(text)
        if isinstance(content, dict) and isinstance(content.get("items"), list):
            return _snapshot(content["items"])
        return read_description(content)
    except yaml.YAMLError as error:
        raise CommandError(f"--cluster {name}: {yaml_problem(error, text)}") from None
    except ValueError as error:
        raise CommandError(f"--cluster {name}: {' '.join(str(error).split())}") from None


def _snapshot(bodies: list[Any]) -> list[Object]:
    """Return the objects; what sources measured of the nodes is in their annotations, because it does not age in a simulation."""
    result: list[Object] = []
    measured = _measured(bodies)
    for body in bodies:
        known = KINDS.get((kinds.group_of(body), str(body.get("kind")))) if isinstance(body, dict) else None
        if known is not None:
            try:
                item = kinds.read(kinds.with_namespace(body, known.namespaced), known)
            except ManifestError as error:
                raise WorkloadError(f"{body.get('kind')} {kinds.key_of(body)}: {error}") from None
            if isinstance(item, core.Node) and (notes := measured.get(item.metadata.name)):
                metadata = msgspec.structs.replace(item.metadata, annotations={**item.metadata.annotations, **notes})
                item = msgspec.structs.replace(item, metadata=metadata)
            result.append(item)
    if not any(isinstance(item, core.Node) for item in result):
        raise WorkloadError("the snapshot has no nodes")
    return with_default_queue(result)


def _measured(bodies: list[Any]) -> dict[str, dict[str, str]]:
    """Return the annotations with the measures of a snapshot, by node."""
    notes: dict[str, dict[str, str]] = {}
    for body in bodies:
        if isinstance(body, dict) and kinds.group_of(body) == replay.GROUP:
            try:
                cycle = convert(body, replay.SchedulingCycle)
            except msgspec.ValidationError as error:
                raise WorkloadError(f"{replay.KIND}: {kinds.field_error(str(error))}") from None
            for name, measure in () if cycle.measures is None else cycle.measures.series.items():
                for node, reading in replay.readings(measure.nodes).items():
                    notes.setdefault(node, {})[names.MEASURE_PREFIX + name] = annotation(reading)
    return notes


def configuration_of(name: str) -> str:
    """Return the scheduler configuration of a snapshot; empty for other files."""
    try:
        content = _content(text_of(name, "--cluster")) if not name.endswith(".csv") else None
    except yaml.YAMLError:
        return ""  # reading the cluster reports it
    items = content.get("items") if isinstance(content, dict) else None
    objects = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    return next((str(item.get("config", "")) for item in objects if kinds.group_of(item) == replay.GROUP), "")


def _content(text: str) -> Any:
    """Return the content of a file in JSON or YAML; snapshots of large clusters are JSON, which is read much faster."""
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except ValueError:
            pass
    return yaml.load(text, Loader=_Loader)


@lru_cache(maxsize=4)
def _trace(
    name: str, kind: str, pod_cpus: int, machine: tuple[float, float]
) -> tuple[tuple[Job, ...], tuple[str, ...]]:
    text = text_of(name, "workload", _HINT)
    try:
        chosen = kind or detected(text)
        trace = read_workload(text, chosen, pod_cpus=pod_cpus, machine=machine)
    except WorkloadError as error:
        raise WorkloadError(f"{name}: {error}") from None
    return tuple(trace.jobs), tuple(trace.all_notes())


def _capacity(nodes: list[core.Node]) -> dict[str, int]:
    total = quantity.summed(quantity.amounts(node.status.allocatable) for node in nodes)
    total.pop("pods", None)
    return total


def _largest(nodes: list[core.Node]) -> tuple[float, float]:
    amounts = [quantity.amounts(node.status.allocatable) for node in nodes]
    return (
        max((units.get("cpu", 0) / 1000 for units in amounts), default=1.0),
        float(max((units.get("memory", 0) for units in amounts), default=1)),
    )

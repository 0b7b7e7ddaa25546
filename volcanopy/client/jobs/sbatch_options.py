"""What each option of sbatch becomes in a job: pods, their resources, queue, deadline, signal."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from volcanopy.client.errors import CommandError
from volcanopy.client.jobs.job_names import name_part
from volcanopy.client.jobs.options import JobOptions, RestartOption
from volcanopy.client.jobs.program import MAXIMUM_SCRIPT, MOST_INDEXES

SHORT = {
    "-J": "job-name",
    "-n": "ntasks",
    "-N": "nodes",
    "-c": "cpus-per-task",
    "-t": "time",
    "-p": "partition",
    "-a": "array",
    "-A": "account",
    "-q": "qos",
    "-d": "dependency",
    "-o": "output",
    "-e": "error",
    "-i": "input",
    "-G": "gpus",
    "-D": "chdir",
    "-C": "constraint",
    "-w": "nodelist",
    "-x": "exclude",
    "-L": "licenses",
    "-M": "clusters",
    "-b": "begin",
    "-m": "distribution",
    "-W": "wait",
    "-H": "hold",
    "-Q": "quiet",
    "-v": "verbose",
    "-k": "no-kill",
    "-O": "overcommit",
    "-s": "oversubscribe",
}
SWITCHES = frozenset(
    [
        "contiguous",
        "exclusive",
        "get-user-env",
        "hold",
        "ignore-pbs",
        "nice",
        "no-kill",
        "no-requeue",
        "overcommit",
        "oversubscribe",
        "parsable",
        "propagate",
        "quiet",
        "reboot",
        "requeue",
        "share",
        "spread-job",
        "use-min-nodes",
        "verbose",
        "wait",
    ]
)
"""Options that need no value."""
_RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_MEMORY = re.compile(r"(\d+)([KMGT]?)B?", re.IGNORECASE)
_SIGNAL = re.compile(r"(?P<to>[RB]{0,2}:)?(?:SIG)?(?P<signal>[A-Z]+[12]?|\d+)(?:@(?P<seconds>\d+))?")
_LOGS = "`volcanopy job logs` prints the output"
_NO_MAIL = "volcanopy sends no mail"
_SHARED = "pods share nodes"
_SCHEDULER = "the scheduler chooses nodes and cores"
_MANIFEST = "leave it out, print the manifest by `volcanopy sbatch --dry-run=client -o yaml`, and add its {}"
_WITHOUT_EFFECT = {
    "output": _LOGS,
    "error": _LOGS,
    "open-mode": _LOGS,
    "mail-type": _NO_MAIL,
    "mail-user": _NO_MAIL,
    "account": "the queue is that of --partition",
    "qos": "the queue is that of --partition",
    "parsable": "the number of the job alone is printed",
    "nice": "use --priority-class",
    "priority": "use --priority-class",
    "comment": "use --annotation",
    "exclusive": "request all CPUs of a node instead",
    "oversubscribe": _SHARED,
    "overcommit": _SHARED,
    "share": _SHARED,
    "kill-on-invalid-dep": "jobs have no dependencies",
    "ignore-pbs": "only lines #SBATCH are read",
    "reboot": _SCHEDULER,
    "wait-all-nodes": "the pods of a job start together",
    "contiguous": _SCHEDULER,
    "distribution": _SCHEDULER,
    "hint": _SCHEDULER,
    "threads-per-core": _SCHEDULER,
    "ntasks-per-core": _SCHEDULER,
    "ntasks-per-socket": _SCHEDULER,
    "sockets-per-node": _SCHEDULER,
    "cores-per-socket": _SCHEDULER,
    "cpu-bind": _SCHEDULER,
    "gpu-bind": _SCHEDULER,
    "mem-bind": _SCHEDULER,
    "cpu-freq": _SCHEDULER,
    "switches": _SCHEDULER,
    "spread-job": _SCHEDULER,
    "use-min-nodes": _SCHEDULER,
    "get-user-env": "a pod has the environment of its image; on process nodes this one",
    "propagate": "limits are those of the pod",
    "quiet": "the options are printed",
    "verbose": "the options are printed",
    "no-kill": "a pod whose node is lost is created again",
}
_IMPOSSIBLE = {
    "dependency": "use a job flow, whose steps name what they depend on",
    "constraint": _MANIFEST.format("nodeSelector"),
    "nodelist": _MANIFEST.format("nodeSelector"),
    "exclude": _MANIFEST.format("node affinity"),
    "begin": "use a cron job, or submit it then",
    "hold": "submit it, then use `volcanopy job suspend`",
    "licenses": "use a quota of the queue",
}


@dataclass(frozen=True)
class SlurmRequest:
    """The options of a script, and whether it starts its tasks by ``srun``.

    Slurm runs the script once, and srun starts the tasks: with srun each task is a pod, else all are one pod.
    """

    values: Mapping[str, str]
    launches: bool

    @property
    def nodes(self) -> int:
        """The least number of nodes."""
        return _whole(self.values.get("nodes", "1").split("-")[0])

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        if "ntasks" in self.values:
            return _whole(self.values["ntasks"])
        return self.nodes * _whole(self.values.get("ntasks-per-node", "1"))

    @property
    def tasks_of_node(self) -> int:
        """The number of tasks for which an amount of a node is."""
        if "ntasks-per-node" in self.values:
            return _whole(self.values["ntasks-per-node"])
        return max(1, -(-self.tasks // self.nodes))

    @property
    def cpus_of_task(self) -> int:
        """CPUs of one task."""
        return _whole(self.values.get("cpus-per-task", "1"))

    @property
    def pods(self) -> int:
        """The number of pods."""
        return self.tasks if self.launches else 1

    @property
    def tasks_of_pod(self) -> int:
        """The number of tasks in a pod."""
        return 1 if self.launches else self.tasks

    @property
    def pods_of_node(self) -> int:
        """The number of pods for which an amount of a node is."""
        return self.tasks_of_node if self.launches else 1

    @property
    def indexes(self) -> list[int]:
        """The indexes of the array, as ``1-3,7,10-20:5``; none without one."""
        text = self.values.get("array", "").partition("%")[0]
        ranges = []
        for piece in text.split(",") if text else ():
            if (match := _RANGE.fullmatch(piece)) is None:
                raise CommandError(f"{text!r}: use indexes as 1-100, 1,3,7 or 0-20:5, and %10 for so many at a time")
            ranges.append(range(int(match[1]), int(match[2] or match[1]) + 1, int(match[3] or 1) or 1))
        if (count := sum((piece.stop - piece.start) // piece.step for piece in ranges)) > MOST_INDEXES:
            raise CommandError(f"{text!r} has {count} indexes: use at most {MOST_INDEXES}")
        return [*chain(*ranges)]

    @property
    def is_range(self) -> bool:
        """Whether the indexes of the array follow each other."""
        indexes = self.indexes
        return indexes == list(range(indexes[0], indexes[0] + len(indexes)))


Applied = tuple[JobOptions, str]


def applied(job: JobOptions, request: SlurmRequest, places: Mapping[str, str]) -> tuple[JobOptions, dict[str, str]]:
    """Return the options of the job, and what became of each option of the script. Raises CommandError with the place."""
    results = dict[str, str]()
    for name in sorted(request.values, key=_rank):
        try:
            job, results[name] = _applied(job, name, request)
        except CommandError as error:
            raise CommandError(f"{places[name]}: --{name}: {error}", 2) from None
    return job, results


def _rank(name: str) -> int:
    """Return the order of application: memory follows from the number of pods, CPUs and GPUs."""
    ranks = {"nodes": 0, "ntasks-per-node": 1, "ntasks": 2, "cpus-per-task": 3, "partition": 4, "cpus-per-gpu": 6}
    return ranks.get(name, 7 if name.startswith("mem") else 5)


def _applied(job: JobOptions, name: str, request: SlurmRequest) -> Applied:
    if (read := _READERS.get(name)) is not None:
        return read(job, request.values[name], request)
    if name in _WITHOUT_EFFECT:
        if name in {"account", "qos"} and "partition" not in request.values:
            return replace(job, queue=request.values[name]), f"--queue {request.values[name]}"
        return job, f"no effect: {_WITHOUT_EFFECT[name]}"
    raise CommandError(f"a job of equal pods cannot have it: {_IMPOSSIBLE[name]}")


def _job_name(job: JobOptions, value: str, _: SlurmRequest) -> Applied:
    name = name_part(value, "")
    if not name:
        raise CommandError(f"{value!r} has no letter or digit")
    return replace(job, name=name), f"--name {name}-NUMBER"


def _tasks(job: JobOptions, _: str, request: SlurmRequest) -> Applied:
    """Pods and CPUs, from all options that name tasks, nodes and CPUs of a task."""
    if request.nodes > 1 and not request.launches:
        raise CommandError(
            f"the script starts nothing on {request.nodes} nodes: start its tasks by srun, or use 1 node"
        )
    cpus = request.cpus_of_task * request.tasks_of_pod
    pods = f"--replicas {request.pods}" if request.launches else "one pod, which runs the script"
    return replace(job, replicas=request.pods, cpu=str(cpus)), f"{pods}, --cpu {cpus}"


def _memory(job: JobOptions, value: str, request: SlurmRequest) -> Applied:
    return _with_memory(job, _mebibytes(value) / request.pods_of_node)


def _memory_of_cpus(job: JobOptions, value: str, _: SlurmRequest) -> Applied:
    return _with_memory(job, _mebibytes(value) * int(job.cpu))


def _memory_of_gpus(job: JobOptions, value: str, _: SlurmRequest) -> Applied:
    return _with_memory(job, _mebibytes(value) * max(1, job.gpus))


def _with_memory(job: JobOptions, mebibytes: float) -> Applied:
    amount = f"{mebibytes / 1024:.0f}Gi" if mebibytes % 1024 == 0 else f"{mebibytes:.0f}Mi"
    return replace(job, memory=amount), f"--memory {amount}"


def _gpus_of_node(job: JobOptions, value: str, request: SlurmRequest) -> Applied:
    return _with_gpus(job, _gpu_count(value), request.pods_of_node)


def _gpus_of_task(job: JobOptions, value: str, request: SlurmRequest) -> Applied:
    return _with_gpus(job, _gpu_count(value) * request.tasks_of_pod, 1)


def _gpus_of_job(job: JobOptions, value: str, request: SlurmRequest) -> Applied:
    return _with_gpus(job, _gpu_count(value), request.pods)


def _with_gpus(job: JobOptions, count: int, pods: int) -> Applied:
    if count % pods:
        raise CommandError(f"{count} GPUs cannot be divided among {pods} pods")
    return replace(job, gpus=count // pods), f"--gpus {count // pods}"


def _cpus_of_gpus(job: JobOptions, value: str, _: SlurmRequest) -> Applied:
    cpus = _whole(value) * max(1, job.gpus)
    return replace(job, cpu=str(cpus)), f"--cpu {cpus}"


def _gres(job: JobOptions, value: str, request: SlurmRequest) -> Applied:
    if not re.fullmatch("gpu(:[^,]+)?", value):
        raise CommandError(f"{value!r}: only gpu is supported: use --resource of `volcanopy job run` for others")
    return _gpus_of_node(job, value, request)


def _gpu_count(value: str) -> int:
    """Return the number in ``gpu``, ``gpu:2``, ``gpu:a100``, ``a100:2`` or ``2``."""
    count = value.rpartition(":")[2]
    return int(count) if count.isdecimal() else 1


def _deadline(job: JobOptions, value: str, _: SlurmRequest) -> Applied:
    """M, M:S, H:M:S, D-H, D-H:M or D-H:M:S."""
    if value.upper() in {"UNLIMITED", "INFINITE"} or value == "0":
        return job, "no deadline"
    match = _TIME.fullmatch(value)
    if match is None:
        raise CommandError(f"{value!r} is no time of Slurm: use minutes, H:M:S or D-H:M:S")
    days, first, second, third = (None if group is None else int(group) for group in match.groups())
    if days is not None or third is not None:
        hours, minutes, seconds = first or 0, second or 0, third or 0
    else:
        hours, minutes, seconds = 0, first or 0, second or 0
    total = (((days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    return replace(job, deadline=f"{total}s"), f"--deadline {total}s"


def _queue(job: JobOptions, value: str, _: SlurmRequest) -> Applied:
    if "," in value:
        raise CommandError(f"{value!r}: name one queue")
    return replace(job, queue=value), f"--queue {value}"


def _array(job: JobOptions, value: str, request: SlurmRequest) -> Applied:
    if request.pods != 1:
        raise CommandError(f"each index is one pod, and the script starts {request.pods} tasks by srun")
    indexes, (_, percent, parallelism) = request.indexes, value.partition("%")
    if not indexes or (percent and not parallelism.isdecimal()):
        raise CommandError(f"{value!r}: use FIRST-LAST or FIRST-LAST%PARALLELISM")
    first = indexes[0] if request.is_range else 0
    if not request.is_range and len(" ".join(map(str, indexes))) > MAXIMUM_SCRIPT:
        raise CommandError(f"{len(indexes)} indexes that do not follow each other are too long: use a range")
    array = f"{first}-{first + len(indexes) - 1}{percent}{parallelism}"
    # Slurm ends a failed index for good, and runs the others.
    result = f"--array {array} --restart Never, index in SLURM_ARRAY_TASK_ID"
    return replace(job, array=array, restart=RestartOption.Never), result


def _requeue(job: JobOptions, _: str, _request: SlurmRequest) -> Applied:
    return replace(job, max_retry=3), "--max-retry 3"


def _no_requeue(job: JobOptions, _: str, _request: SlurmRequest) -> Applied:
    return replace(job, max_retry=1), "--max-retry 1"


def _export(job: JobOptions, value: str, _: SlurmRequest) -> Applied:
    """Variables with values, and names of variables of this environment."""
    parts = [
        part if "=" in part or part not in os.environ else f"{part}={os.environ[part]}" for part in value.split(",")
    ]
    pairs = [part for part in parts if "=" in part]
    if not pairs:
        return job, "no effect: a pod has the environment of its image; on process nodes this one"
    return replace(job, env=[*(job.env or ()), *pairs]), " ".join(f"--env {pair}" for pair in pairs)


def _wait(job: JobOptions, _: str, _request: SlurmRequest) -> Applied:
    return job, "--follow"


def _wrap(job: JobOptions, _: str, _request: SlurmRequest) -> Applied:
    return job, "the script"


def _chdir(job: JobOptions, value: str, _: SlurmRequest) -> Applied:
    return replace(job, directory=value), f"the script runs in {value}"


def _image(job: JobOptions, value: str, _: SlurmRequest) -> Applied:
    return replace(job, image=value), f"--image {value}"


def _signal(job: JobOptions, value: str, _: SlurmRequest) -> Applied:
    match = _signal_parts(value)
    seconds = int(match["seconds"] or 60)
    text = f"SIGTERM of the pod is sent on as {match['signal']}; it is killed {seconds} s later"
    return replace(job, grace_period=f"{seconds}s"), text


def _signal_parts(value: str) -> re.Match[str]:
    match = _SIGNAL.fullmatch(value.upper())
    if match is None:
        raise CommandError(f"{value!r} is no signal of sbatch: use B:USR1@60")
    return match


def signal_command(value: str) -> str:
    """Return the command of the shell that sends a signal to the script, or without ``B:`` to the programs that it runs."""
    if not value:
        return ""
    match = _signal_parts(value)
    if "B" in (match["to"] or ""):
        return f"kill -{match['signal']} $!"
    return f"pkill -{match['signal']} -P $!"


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise CommandError(f"{text!r} is no whole number of at least 1")
    return int(text)


def _mebibytes(text: str) -> float:
    if text == "0":
        raise CommandError("0 is all memory of a node: request an amount, such as 4G")
    match = _MEMORY.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise CommandError(f"{text!r} is no amount of memory: use 500M or 4G")
    return int(match[1]) * {"K": 1 / 1024, "M": 1.0, "": 1.0, "G": 1024.0, "T": 1024.0**2}[match[2].upper()]


_READERS: dict[str, Callable[[JobOptions, str, SlurmRequest], Applied]] = {
    "job-name": _job_name,
    "ntasks": _tasks,
    "nodes": _tasks,
    "ntasks-per-node": _tasks,
    "cpus-per-task": _tasks,
    "mem": _memory,
    "mem-per-cpu": _memory_of_cpus,
    "mem-per-gpu": _memory_of_gpus,
    "gres": _gres,
    "cpus-per-gpu": _cpus_of_gpus,
    "gpus-per-node": _gpus_of_node,
    "gpus-per-task": _gpus_of_task,
    "gpus": _gpus_of_job,
    "time": _deadline,
    "partition": _queue,
    "array": _array,
    "requeue": _requeue,
    "no-requeue": _no_requeue,
    "export": _export,
    "wait": _wait,
    "wrap": _wrap,
    "chdir": _chdir,
    "container-image": _image,
    "signal": _signal,
}
_ALIASES = {"tasks-per-node": "ntasks-per-node"}
NAMES = sorted({*_READERS, *_WITHOUT_EFFECT, *_IMPOSSIBLE, *_ALIASES})
"""The options that are known."""


def full_name(name: str) -> str:
    """Return the option that a name means: sbatch takes unambiguous beginnings, such as ``--err`` for ``--error``."""
    name = name.replace("_", "-")
    matches = [name] if name in NAMES else [option for option in NAMES if name and option.startswith(name)]
    return _ALIASES.get(matches[0], matches[0]) if len(matches) == 1 else name

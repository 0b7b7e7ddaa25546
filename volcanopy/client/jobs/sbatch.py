"""Batch scripts of Slurm: what each option of a line ``#SBATCH`` becomes in a job.

The options and their forms are those of sbatch(1).
"""

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from volcanopy.client.errors import CommandError
from volcanopy.client.jobs import program
from volcanopy.client.jobs.options import JobOptions

_SHORT = {
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
    "-G": "gpus",
    "-D": "chdir",
    "-C": "constraint",
    "-w": "nodelist",
    "-x": "exclude",
}
_VARIABLES = "export SLURM_PROCID=$VC_TASK_INDEX SLURM_NTASKS={tasks}; "
_ARRAY_VARIABLES = "export SLURM_ARRAY_TASK_ID=$VC_ARRAY_INDEX; "
_SWITCHES = frozenset({"requeue", "no-requeue", "exclusive", "wait", "overcommit", "oversubscribe", "parsable"})
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_MEMORY = re.compile(r"(\d+)([KMGT]?)B?", re.IGNORECASE)
_WITHOUT_EFFECT = {
    "output": "`volcanopy job logs` prints the output",
    "error": "`volcanopy job logs` prints the output",
    "mail-type": "volcanopy sends no mail",
    "mail-user": "volcanopy sends no mail",
    "account": "the queue is that of --partition",
    "qos": "the queue is that of --partition",
    "open-mode": "the output is in the logs",
    "parsable": "`-o name` prints the name alone",
    "nice": "use --priority-class",
    "comment": "use --annotation",
    "exclusive": "request all CPUs of a node instead",
    "oversubscribe": "pods share nodes",
    "overcommit": "pods share nodes",
}
_IMPOSSIBLE = {
    "dependency": "use a job flow, whose steps name what they depend on",
    "constraint": "use the nodeSelector of a manifest",
    "nodelist": "use the nodeSelector of a manifest",
    "exclude": "use the node affinity of a manifest",
}


@dataclass(frozen=True)
class Directive:
    """An option of a line, as written, with its value, and what became of it."""

    line: int
    name: str
    value: str
    result: str = ""

    @property
    def option(self) -> str:
        """The option as sbatch takes it."""
        return f"--{self.name}={self.value}" if self.value else f"--{self.name}"


@dataclass
class Script:
    """A batch script as options of a job, with notes about its lines."""

    options: JobOptions
    follow: bool = False
    directives: list[Directive] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_script(path: Path, arguments: list[str]) -> Script:
    """Return the job of a batch script. Raises CommandError for an option or value that a job cannot have.

    The script finds Slurm's variables of its array index, rank and number of tasks.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise CommandError(f"cannot read {path}: {reason}", 2) from None
    directives = list(_directives(path, text))
    values = {directive.name: directive.value for directive in directives}
    options, results = _options(path, values, {directive.name: directive.line for directive in directives})
    variables = _VARIABLES.format(tasks=options.replicas) + (_ARRAY_VARIABLES if options.array else "")
    notes = [
        f"line {number}: srun: a pod has none: each of the {options.replicas} pods runs the whole script, leave srun out"
        for number, line in enumerate(text.splitlines(), 1)
        if re.match(r"\s*srun\b", line)
    ]
    return Script(
        replace(options, arguments=program.script(path, arguments, variables), plugin=["env"]),
        "wait" in values,
        [replace(directive, result=results[directive.name]) for directive in directives],
        notes,
    )


def _directives(path: Path, text: str) -> Iterator[Directive]:
    """Yield the options of the lines before the first command."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            return
        if not line.startswith("#SBATCH"):
            continue
        try:
            arguments = shlex.split(line.removeprefix("#SBATCH"), comments=True)
        except ValueError as error:
            raise CommandError(f"{path}:{number}: {error}", 2) from None
        yield from _parsed(path, number, arguments)


def _parsed(path: Path, number: int, arguments: list[str]) -> Iterator[Directive]:
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument.startswith("--"):
            name, equals, value = argument[2:].partition("=")
        elif argument[:2] in _SHORT:
            name, value = _SHORT[argument[:2]], argument[2:]
            equals = value
        else:
            raise CommandError(f"{path}:{number}: {argument!r} is no option of sbatch", 2)
        if not equals and name not in _SWITCHES:
            if not rest:
                raise CommandError(f"{path}:{number}: --{name} needs a value", 2)
            value = rest.pop(0)
        yield Directive(number, name, value)


def _options(path: Path, values: dict[str, str], lines: dict[str, int]) -> tuple[JobOptions, dict[str, str]]:
    """Return the options of the job, and what became of each option of the script."""
    job, results = JobOptions(), dict[str, str]()
    for name, value in sorted(values.items(), key=lambda item: _rank(item[0])):
        try:
            job, results[name] = _applied(job, name, value, values)
        except CommandError as error:
            raise CommandError(f"{path}:{lines[name]}: --{name}: {error}", 2) from None
    return job, results


def _rank(name: str) -> int:
    """Return the order of application: amounts of a pod follow from the number of pods and CPUs."""
    return {"nodes": 0, "ntasks-per-node": 1, "ntasks": 2, "cpus-per-task": 3, "partition": 4}.get(name, 5)


def _applied(job: JobOptions, name: str, value: str, values: dict[str, str]) -> tuple[JobOptions, str]:
    if (read := _READERS.get(name)) is not None:
        return read(job, value, values)
    if name in _WITHOUT_EFFECT:
        if name in {"account", "qos"} and "partition" not in values:
            return replace(job, queue=value), f"--queue {value}"
        return job, f"no effect: {_WITHOUT_EFFECT[name]}"
    if name in _IMPOSSIBLE:
        raise CommandError(f"a job of equal pods cannot have it: {_IMPOSSIBLE[name]}")
    raise CommandError("not supported: leave it out")


Applied = tuple[JobOptions, str]


def _job_name(job: JobOptions, value: str, _: dict[str, str]) -> Applied:
    name = re.sub("[^a-z0-9]+", "-", value.lower()).strip("-")[:63].strip("-")
    if not name:
        raise CommandError(f"{value!r} has no letter or digit")
    return replace(job, name=name), f"--name {name}"


def _pods(job: JobOptions, _: str, values: dict[str, str]) -> Applied:
    """The number of pods: tasks, or nodes times the tasks of each."""
    if "ntasks" in values:
        count = _whole(values["ntasks"])
    else:
        count = _whole(values.get("nodes", "1").split("-")[0]) * _whole(values.get("ntasks-per-node", "1"))
    return replace(job, replicas=count), f"--replicas {count}"


def _cpus(job: JobOptions, value: str, _: dict[str, str]) -> Applied:
    return replace(job, cpu=str(_whole(value))), f"--cpu {value}"


def _memory(job: JobOptions, value: str, values: dict[str, str]) -> Applied:
    """The memory of a pod: that of a node divided by its tasks."""
    amount = _mebibytes(value) / _tasks_per_node(values)
    return _with_memory(job, amount)


def _memory_of_cpus(job: JobOptions, value: str, _: dict[str, str]) -> Applied:
    return _with_memory(job, _mebibytes(value) * int(job.cpu))


def _with_memory(job: JobOptions, mebibytes: float) -> Applied:
    amount = f"{mebibytes / 1024:.0f}Gi" if mebibytes % 1024 == 0 else f"{mebibytes:.0f}Mi"
    return replace(job, memory=amount), f"--memory {amount}"


def _gpus_of_node(job: JobOptions, value: str, values: dict[str, str]) -> Applied:
    return _with_gpus(job, _gpu_count(value), _tasks_per_node(values))


def _gpus_of_task(job: JobOptions, value: str, _: dict[str, str]) -> Applied:
    return _with_gpus(job, _gpu_count(value), 1)


def _gpus_of_job(job: JobOptions, value: str, _: dict[str, str]) -> Applied:
    return _with_gpus(job, _gpu_count(value), job.replicas)


def _with_gpus(job: JobOptions, count: int, parts: int) -> Applied:
    if count % parts:
        raise CommandError(f"{count} GPUs cannot be divided among {parts} pods")
    return replace(job, gpus=count // parts), f"--gpus {count // parts}"


def _gpu_count(value: str) -> int:
    kind, *_, count = f"gpu:{value.removeprefix('gpu:')}".split(":")
    return _whole("1" if count == kind or not count.isdecimal() else count)


def _deadline(job: JobOptions, value: str, _: dict[str, str]) -> Applied:
    """M, M:S, H:M:S, D-H, D-H:M or D-H:M:S."""
    if value.upper() in {"UNLIMITED", "INFINITE"} or value == "0":
        return job, "no deadline"
    match = _TIME.fullmatch(value)
    if match is None:
        raise CommandError(f"{value!r} is no time of Slurm: use minutes, H:M:S or D-H:M:S")
    days, *parts = (None if part is None else int(part) for part in match.groups())
    first, second, third = parts
    if days is not None:
        hours, minutes, seconds = first or 0, second or 0, third or 0
    elif third is not None:
        hours, minutes, seconds = first or 0, second or 0, third
    else:
        hours, minutes, seconds = 0, first or 0, second or 0
    total = (((days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    return replace(job, deadline=f"{total}s"), f"--deadline {total}s"


def _queue(job: JobOptions, value: str, _: dict[str, str]) -> Applied:
    return replace(job, queue=value), f"--queue {value}"


def _array(job: JobOptions, value: str, _: dict[str, str]) -> Applied:
    if job.replicas != 1:
        raise CommandError(f"each index is one pod, and the script requests {job.replicas} tasks")
    array = f"{value}-{value}" if value.isdecimal() else value
    if re.fullmatch(r"\d+-\d+(%\d+)?", array) is None:
        raise CommandError(f"{value!r}: use FIRST-LAST or FIRST-LAST%PARALLELISM")
    return replace(job, array=array), f"--array {array}, index in SLURM_ARRAY_TASK_ID"


def _requeue(job: JobOptions, _: str, _values: dict[str, str]) -> Applied:
    return replace(job, max_retry=3), "--max-retry 3"


def _no_requeue(job: JobOptions, _: str, _values: dict[str, str]) -> Applied:
    return replace(job, max_retry=1), "--max-retry 1"


def _export(job: JobOptions, value: str, _: dict[str, str]) -> Applied:
    pairs = [part for part in value.split(",") if "=" in part]
    if not pairs:
        return job, "no effect: a pod has the environment of its image; --here passes this one on"
    return replace(job, env=[*(job.env or ()), *pairs]), " ".join(f"--env {pair}" for pair in pairs)


def _wait(job: JobOptions, _: str, _values: dict[str, str]) -> Applied:
    return job, "--follow"


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise CommandError(f"{text!r} is no whole number of at least 1")
    return int(text)


def _mebibytes(text: str) -> float:
    match = _MEMORY.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise CommandError(f"{text!r} is no amount of memory: use 500M or 4G")
    return int(match[1]) * {"K": 1 / 1024, "M": 1.0, "": 1.0, "G": 1024.0, "T": 1024.0**2}[match[2].upper()]


def _tasks_per_node(values: dict[str, str]) -> int:
    """Return the pods that share what is counted for a node."""
    if "ntasks-per-node" in values:
        return _whole(values["ntasks-per-node"])
    if "nodes" in values and "ntasks" in values:
        return max(1, -(-_whole(values["ntasks"]) // _whole(values["nodes"].split("-")[0])))
    return 1


_READERS: dict[str, Callable[[JobOptions, str, dict[str, str]], Applied]] = {
    "job-name": _job_name,
    "ntasks": _pods,
    "nodes": _pods,
    "ntasks-per-node": _pods,
    "cpus-per-task": _cpus,
    "mem": _memory,
    "mem-per-cpu": _memory_of_cpus,
    "gres": _gpus_of_node,
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
}

"""Batch scripts of Slurm: what each option of a line ``#SBATCH`` becomes in a job, and what the script finds in its pod.

The options and their forms are those of sbatch(1).
"""

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from volcanopy.api import names
from volcanopy.client.errors import CommandError
from volcanopy.client.files import text_of
from volcanopy.client.jobs import program
from volcanopy.client.jobs.job_names import name_part
from volcanopy.client.jobs.options import JobOptions
from volcanopy.client.jobs.sbatch_options import (
    NAMES,
    SHORT,
    SWITCHES,
    SlurmRequest,
    applied,
    full_name,
    signal_command,
)

_LAUNCHER = re.compile(r"(?:^|[;&|(]|\b(?:time|exec|do|then)\s)\s*srun\b")
_SLURM = re.compile(r"(?:^|[;&|(])\s*(scontrol|sbatch|sacct|squeue|scancel|sbcast)\b")
_COMMAND_LINE = "command line"
_VARIABLES = """export SLURM_JOB_ID={id} SLURM_JOBID={id} SLURM_JOB_NAME={name} SLURM_SUBMIT_DIR="$PWD" SLURM_NTASKS={tasks} \
SLURM_NPROCS={tasks} SLURM_NTASKS_PER_NODE={tasks_of_node} SLURM_JOB_PARTITION={queue} SLURM_GPUS_ON_NODE={gpus} \
SLURM_JOB_NUM_NODES={nodes} SLURM_NNODES={nodes} SLURM_CPUS_ON_NODE={cpus} SLURM_PROCID={rank} \
SLURM_LOCALID=$(({rank} % {tasks_of_node})) SLURM_NODEID=$(({rank} / {tasks_of_node}))
"""
_ARRAY_VARIABLES = """export SLURM_ARRAY_JOB_ID={id} SLURM_ARRAY_TASK_ID={index} SLURM_ARRAY_TASK_MIN={first} \
SLURM_ARRAY_TASK_MAX={last} SLURM_ARRAY_TASK_COUNT={count}
"""
_INDEX_OF_LIST = "$(set -- {indexes}; shift $VC_ARRAY_INDEX; echo $1)"
_VARIABLE = re.compile(r"\bSLURM_\w+")
_SRUN = r"""d=$(mktemp -d) && cat > "$d/srun" <<'END' && chmod 700 "$d/srun" && export PATH="$d:$PATH"
#!/bin/sh
while :; do
  case $1 in
    --*=*|--exact|--exclusive|--kill-on-bad-exit|--label|--overlap|--overcommit|--pty) shift ;;
    --quiet|--unbuffered|--verbose|-[HKOlkuvQX]|-[!-]?*) shift ;;
    -*) shift 2 ;;
    *) exec "$@" ;;
  esac
done
END
"""
"""A program ``srun`` that leaves out its options and runs the command once: each pod is one task."""


@dataclass(frozen=True)
class Directive:
    """An option with its value, where it is written, and what became of it."""

    place: str
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
    parsable: bool = False
    directives: list[Directive] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_script(
    path: Path | None, arguments: list[str], identifier: int, command_options: Sequence[str] = ()
) -> Script:
    """Return the job of a batch script. Raises CommandError for an option or value that a job cannot have.

    ``command_options`` are options of the command line, which precede those of the script; with ``--wrap`` they have the
    script itself. Without a path it is read from the standard input. The identifier is the number of the job for Slurm's
    programs. The script finds Slurm's variables.
    """
    command_directives = list(_tokens(_COMMAND_LINE, list(command_options)))
    path, text = _source(path, command_directives)
    if not text.strip():
        raise CommandError(f"{path}: the script is empty", 2)
    directives = [*_directives(path, text), *command_directives]
    last = {directive.name: directive for directive in directives}
    launches = any(_LAUNCHER.search(line) for line in text.splitlines() if not line.lstrip().startswith("#"))
    request = SlurmRequest({name: directive.value for name, directive in last.items()}, launches)
    options, results = applied(
        JobOptions(name=name_part(path.name.partition(".")[0] or path.name, "job")),
        request,
        {name: directive.place for name, directive in last.items()},
    )
    options = replace(options, name=f"{options.name}-{identifier}")
    variables = _variables(options, request, identifier)
    command = program.script(text, arguments, variables, signal_command(request.values.get("signal", "")))
    return Script(
        replace(options, arguments=command, plugin=["env"], label=[f"{names.SLURM_ID}={identifier}"]),
        "wait" in last,
        "parsable" in last,
        [
            replace(
                directive, result=results[directive.name] if directive is last[directive.name] else "set again below"
            )
            for directive in directives
        ],
        [*_notes(text, request, variables), f'job "{options.name}"'],
    )


def _source(path: Path | None, command_directives: Sequence[Directive]) -> tuple[Path, str]:
    """Return the script and a path that names it. Raises CommandError."""
    wrap = {directive.name: directive.value for directive in command_directives}.get("wrap")
    if path is None:
        if wrap is None and sys.stdin.isatty():
            sys.stderr.write("reading the script from standard input, to its end (Ctrl-D)\n")
        return (
            (Path("stdin"), sys.stdin.read().removeprefix("\ufeff"))
            if wrap is None
            else (Path("wrap"), f"#!/bin/sh\n{wrap}\n")
        )
    if wrap is not None:
        raise CommandError(f"--wrap: the command is the script: leave out {path}", 2)
    return path, text_of(path)


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the options of a command line of sbatch, and its script with arguments."""
    rest = list(arguments)
    list(_tokens(_COMMAND_LINE, rest, until_script=True))
    return list(arguments[: len(arguments) - len(rest)]), rest


def _directives(path: Path, text: str) -> Iterator[Directive]:
    """Yield the options of the lines before the first command."""
    for number, line in _header(text):
        if not line.startswith("#SBATCH"):
            continue
        try:
            arguments = shlex.split(line.removeprefix("#SBATCH"), comments=True)
        except ValueError as error:
            raise CommandError(f"{path}:{number}: {error}", 2) from None
        if arguments[:1] in (["hetjob"], ["packjob"]):
            raise CommandError(
                f"{path}:{number}: a heterogeneous job: write a manifest with a task for each component", 2
            )
        yield from _tokens(f"{path}:{number}", arguments)


def _header(text: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines before the first command."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            return
        yield number, line


def _tokens(place: str, rest: list[str], *, until_script: bool = False) -> Iterator[Directive]:
    """Yield the options at the beginning of a list of arguments, and remove them from it."""
    while rest:
        argument = rest[0]
        if argument.startswith("--"):
            name, equals, value = argument[2:].partition("=")
            name = full_name(name)
        elif argument[:2] in SHORT:
            name, value = SHORT[argument[:2]], argument[2:].removeprefix("=")
            equals = argument[2:]
        elif until_script and not argument.startswith("-"):
            return
        else:
            raise CommandError(f"{place}: {argument!r} is no option of sbatch", 2)
        if name not in NAMES:
            raise CommandError(f"{place}: --{name}: not supported: leave it out", 2)
        del rest[0]
        if not equals and name not in SWITCHES:
            if not rest:
                raise CommandError(f"{place}: --{name} needs a value", 2)
            value = rest.pop(0)
        yield Directive(place, name, value)


def _variables(options: JobOptions, request: SlurmRequest, identifier: int) -> str:
    """Return the commands of the shell that run before the script."""
    values = {
        "id": identifier,
        "name": shlex.quote(request.values.get("job-name", options.name)),
        "tasks": request.tasks,
        "nodes": request.nodes,
        "tasks_of_node": request.tasks_of_node,
        "queue": shlex.quote(options.queue),
        "cpus": options.cpu,
        "gpus": options.gpus * request.pods_of_node,
        "rank": "$VC_TASK_INDEX" if options.replicas > 1 else "0",
    }
    text = _VARIABLES.format(**values)
    if "cpus-per-task" in request.values:
        text += f"export SLURM_CPUS_PER_TASK={request.cpus_of_task}\n"
    if indexes := request.indexes:
        text += _ARRAY_VARIABLES.format(
            id=identifier,
            index="$VC_ARRAY_INDEX" if request.is_range else _INDEX_OF_LIST.format(indexes=" ".join(map(str, indexes))),
            first=min(indexes),
            last=max(indexes),
            count=len(indexes),
        )
    if request.launches:
        text += _SRUN
    return text


def _notes(text: str, request: SlurmRequest, variables: str) -> Iterator[str]:
    """Yield what is different for lines of the script."""
    header = len(list(_header(text)))
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#SBATCH") and number > header:
            yield f"line {number}: {line.strip()}: after the first command it is a comment, as for sbatch"
        elif line.lstrip().startswith("#"):
            continue
        elif _LAUNCHER.search(line):
            runs = "the pod runs" if request.pods == 1 else f"each of the {request.pods} pods runs the whole script and"
            yield f"line {number}: srun: {runs} its command once; options of srun have no effect"
        elif match := _SLURM.search(line):
            yield f"line {number}: {match[1]}: a pod has no such program"
        if missing := sorted(set(_VARIABLE.findall(line)) - set(_VARIABLE.findall(variables))):
            yield f"line {number}: {', '.join(missing)}: not set in a pod"

"""The command lines of Volcano's ``vcctl``, ``vsub``, ``vjobs``, ``vqueues``, ``vcancel``, ``vsuspend`` and ``vresume``.

:func:`translated` returns the same command in the form of volcanopy. A command line is in Volcano's form if it has an
option or a command that only Volcano has: names are options there (``-N``), and arguments here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from volcanopy.api.bindings import BINDINGS
from volcanopy.client.errors import CommandError

Values = Mapping[str, str]
"""The options of a command line by their long names; a switch has the value ``true``."""

_SWITCHES = frozenset({"all-namespaces"})
_REQUESTS = "cpu=1000m,memory=100Mi"
"""Default requests and limits of vcctl."""
_IMAGE = "busybox"


@dataclass(frozen=True)
class _Form:
    """A command of Volcano: its options, those that are Volcano's alone (all commands have some if empty), and ours."""

    options: Mapping[str, str]
    marks: frozenset[str]
    ours: Callable[[Values], list[str]]


def translated(program: str, arguments: Sequence[str]) -> list[str] | None:
    """Return the arguments of volcanopy for a command line of Volcano; None if it is none.

    ``program`` is the name that was called. Raises CommandError if volcanopy has no equivalent.
    """
    form, rest = _PROGRAMS.get(program), list(arguments)
    if form is None:
        form, rest = _COMMANDS.get(tuple(arguments[:2])), list(arguments[2:])
    help_requested = not {"-h", "--help"}.isdisjoint(rest)
    if form is None or (help_requested and program not in _PROGRAMS):
        return None
    flags = [_flag(argument, form.options) for argument in rest]
    if program not in _PROGRAMS and form.marks and form.marks.isdisjoint(flags):
        return None
    values = _values(rest, form.options)
    if values is None:
        if program in _PROGRAMS:
            raise CommandError(
                f"{program} has the options {' '.join(sorted(form.options))}", 0 if help_requested else 2
            )
        return None
    return form.ours(values)


def _flag(argument: str, options: Mapping[str, str]) -> str:
    """Return the option that an argument begins with; empty if there is none."""
    if argument.startswith("--"):
        return argument.partition("=")[0]
    return argument[:2] if argument[:2] in options else ""


def _values(arguments: list[str], options: Mapping[str, str]) -> dict[str, str] | None:
    """Return the values of the options; None if an argument is not one of them."""
    values: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        flag = _flag(argument, options)
        if flag not in options:
            return None
        name = options[flag]
        if name in _SWITCHES:
            values[name] = "true"
        elif argument != flag:
            values[name] = argument[len(flag) :].removeprefix("=")
        elif (value := next(rest, None)) is not None:
            values[name] = value
        else:
            return None
    return values


def _flags(**shorts: str) -> dict[str, str]:
    """Return options given as ``name="-N"``; with an empty text they have no short form."""
    long = {f"--{name}".replace("_", "-"): name.replace("_", "-") for name in shorts}
    return long | {short: name.replace("_", "-") for name, short in shorts.items() if short}


def _named(values: Values) -> list[str]:
    if not values.get("name"):
        raise CommandError("the name is missing: give it as an argument", 2)
    return [values["name"]]


def _place(values: Values) -> list[str]:
    everywhere = ["-A"] if "all-namespaces" in values else []
    return everywhere + (["-n", values["namespace"]] if values.get("namespace") else [])


def _check_scheduler(values: Values) -> None:
    """Raise CommandError for the scheduler of others, whose jobs the command line does not show."""
    names = [binding.scheduler_name for binding in BINDINGS]
    if (name := values.get("scheduler")) and name not in names:
        raise CommandError(f'--scheduler "{name}": jobs are scheduled by {" or ".join(names)}', 2)


def _job_run(values: Values) -> list[str]:
    _check_scheduler(values)
    if file := values.get("filename"):
        return ["job", "submit", "-f", file, *_place(values)]
    named = ["--name", values["name"]] if values.get("name") else []
    arguments = [*named, "--image", values.get("image", _IMAGE), "-r", values.get("replicas", "1")]
    arguments += ["-m", values.get("min", "1"), *_amounts(values), *_place(values)]
    command = values.get("command")
    return ["job", "run", *arguments, *(["--", "sh", "-c", command] if command else [])]


def _amounts(values: Values) -> list[str]:
    """Return the options for the requests and limits of a container."""
    requests, limits = (_quantities(values.get(name, _REQUESTS)) for name in ("requests", "limits"))
    arguments = []
    for name, quantity in requests.items():
        if name in {"cpu", "memory"}:
            arguments += [f"--{name}", quantity]
            if (limit := limits.get(name, "0")) != quantity:
                arguments += [f"--{name}-limit", limit]
        else:
            arguments += ["--resource", f"{name}={quantity}"]
    return arguments


def _quantities(text: str) -> dict[str, str]:
    pairs = [entry.partition("=") for entry in text.split(",") if entry]
    return {name.strip(): quantity.strip() for name, _, quantity in pairs}


def _job_list(values: Values) -> list[str]:
    _check_scheduler(values)
    queue = ["-q", values["queue"]] if values.get("queue") else []
    return ["job", "list", *queue, *_place(values)]


def _vjobs(values: Values) -> list[str]:
    return ["job", "describe", *_named(values), *_place(values)] if values.get("name") else _job_list(values)


def _queue_create(values: Values) -> list[str]:
    if (state := values.get("state", "Open")) != "Open":
        raise CommandError(f'--state "{state}": create the queue, then use `volcanopy queue close`', 2)
    return ["queue", "create", *_named(values), "--weight", values.get("weight", "1")]


def _queue_operate(values: Values) -> list[str]:
    match values.get("action", ""):
        case "open" | "close" as action:
            return ["queue", action, *_named(values)]
        case "update" | "" if values.get("weight"):
            return ["queue", "update", *_named(values), "--weight", values["weight"]]
        case action:
            raise CommandError(f'--action "{action}": use open, close, or update with --weight', 2)


def _vqueues(values: Values) -> list[str]:
    return ["queue", "get", *_named(values)] if values.get("name") else ["queue", "list"]


def _with_name(*command: str) -> Callable[[Values], list[str]]:
    """Return the translation of a command whose only option, besides the namespace, is the name."""
    return lambda values: [*command, *_named(values), *_place(values)]


def _from_file(kind: str, verb: str) -> Callable[[Values], list[str]]:
    def ours(values: Values) -> list[str]:
        target = ["-f", values["file"]] if values.get("file") else _named(values)
        return [kind, verb, *target, *_place(values)]

    return ours


def _described(kind: str) -> Callable[[Values], list[str]]:
    return lambda values: [kind, "get", *_named(values), "-o", values.get("format", "yaml"), *_place(values)]


_JOB = _flags(namespace="-n", name="-N")
_RUN = {"image": "-i", "min": "-m", "replicas": "-r", "requests": "-R", "limits": "-L", "scheduler": "-S"}
_LIST = {"queue": "-q", "scheduler": "-S", "all_namespaces": ""}
_QUEUE = _flags(name="-n")
_NAME = frozenset({"-N", "--name"})
_QUEUE_NAME = frozenset({"-n", "--name"})
_RUN_MARKS = frozenset({"-N", "-R", "--requests", "-L", "--limits", "-S", "--scheduler", "-f", "--filename"})

_COMMANDS: Mapping[tuple[str, ...], _Form] = MappingProxyType(
    {
        ("job", "run"): _Form(_JOB | _flags(**_RUN, filename="-f"), _RUN_MARKS, _job_run),
        ("job", "list"): _Form(_JOB | _flags(**_LIST), frozenset({"-S", "--scheduler"}), _job_list),
        ("job", "view"): _Form(_JOB, frozenset(), _with_name("job", "describe")),
        **{("job", verb): _Form(_JOB, _NAME, _with_name("job", verb)) for verb in ("suspend", "resume", "delete")},
        ("queue", "create"): _Form(_QUEUE | _flags(weight="-w", state="-S"), _QUEUE_NAME, _queue_create),
        ("queue", "delete"): _Form(_QUEUE, _QUEUE_NAME, _with_name("queue", "delete")),
        ("queue", "get"): _Form(_QUEUE, _QUEUE_NAME, _with_name("queue", "get")),
        ("queue", "operate"): _Form(_QUEUE | _flags(weight="-w", action="-a"), frozenset(), _queue_operate),
        **{(kind, "get"): _Form(_JOB, _NAME, _with_name(kind, "get")) for kind in ("jobflow", "jobtemplate")},
        **{
            (kind, "describe"): _Form(_JOB | _flags(format="-o"), _NAME | {"-o", "--format"}, _described(kind))
            for kind in ("jobflow", "jobtemplate")
        },
        **{
            (kind, verb): _Form(_JOB | _flags(file="-f"), _NAME | {"--file"}, _from_file(kind, verb))
            for kind in ("jobflow", "jobtemplate")
            for verb in ("create", "delete")
        },
    }
)
_V_JOB = _flags(namespace="-N", name="-n")
"""The one-letter options of the programs are swapped against those of vcctl."""
_PROGRAMS: Mapping[str, _Form] = MappingProxyType(
    {
        "vsub": _Form(_V_JOB | _flags(**_RUN, command="-c"), frozenset(), _job_run),
        "vjobs": _Form(_V_JOB | _flags(**_LIST), frozenset(), _vjobs),
        "vqueues": _Form(_QUEUE, frozenset(), _vqueues),
        "vcancel": _Form(_V_JOB, frozenset(), _with_name("job", "delete")),
        "vsuspend": _Form(_V_JOB, frozenset(), _with_name("job", "suspend")),
        "vresume": _Form(_V_JOB, frozenset(), _with_name("job", "resume")),
    }
)
PROGRAMS = tuple(_PROGRAMS)
"""The names under which volcanopy is called like a program of Volcano."""

"""Commands from functions: bundles of options are expanded, coroutines run, errors become sentences.

A Typer application sees one flat function; the command's own function gets whole values.
"""

import asyncio
import copy
import dataclasses
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from volcanopy.client.errors import CommandError, cluster_error, first_of

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""Context settings of every command and group."""

Function = Callable[..., Coroutine[Any, Any, None] | None]


@dataclasses.dataclass(frozen=True)
class Noun:
    """The plural of a kind in help texts, and whether the kind has namespaces."""

    plural: str = "objects"
    namespaced: bool = True

    def fill(self, text: str) -> str:
        """Return a help text with its placeholders replaced."""
        plural = self.plural
        if text.startswith("{plural}"):
            plural = plural.capitalize()
        in_namespace = " of the namespace" if self.namespaced else ""
        return text.replace("{plural}", plural).replace("{in_namespace}", in_namespace)


def command(
    app: typer.Typer,
    name: str,
    *,
    examples: Sequence[str] = (),
    noun: Noun = Noun(),
    bundles: Mapping[str, type[Any]] | None = None,
    text: str = "",
    hidden: bool = False,
) -> Callable[[Function], Function]:
    """Register a function as the command ``name`` of an application; the function itself stays unchanged.

    ``examples`` are whole command lines, shown below the help. ``noun`` fills help texts; for cluster-scoped kinds the
    options for namespaces are left out. ``bundles`` replace annotations of parameters; ``text`` replaces the docstring.
    """

    def register(function: Function) -> Function:
        epilog = "Examples:\n\n\b\n" + "\n".join(f"  {line}" for line in examples) if examples else None
        flat = _flat(function, noun, bundles or {})
        flat.__doc__ = text or function.__doc__
        app.command(name, cls=_Command, epilog=epilog, context_settings=SETTINGS, hidden=hidden)(flat)
        return function

    return register


class Parsing:
    """For a command or group: ``-n=NAME`` is ``-n NAME``, as for kubectl, and every error has the context that has the help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. Raises UsageError."""
        try:
            parsed: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        except typer.TyperException as fault:
            fault.ctx = getattr(fault, "ctx", None) or ctx  # type: ignore[attr-defined]
            raise
        return parsed

    def make_parser(self, ctx: Any) -> Any:
        """Return the parser; it splits at ``=`` what begins with a name that it knows as that of a long option."""
        parser = super().make_parser(ctx)  # type: ignore[misc]
        parser._long_opt |= parser._short_opt  # the version of Typer is pinned
        return parser


class _Command(Parsing, TyperCommand):
    pass


class LazyGroup(TyperGroup):
    """A group of commands whose module is imported when one of them is called, not to list the group."""

    def __init__(self, name: str, module: str, help: str, default: str = "") -> None:  # noqa: A002
        """``default`` is the command of arguments that begin with no command."""
        super().__init__(
            name=name, help=help, no_args_is_help=True, rich_markup_mode=None, context_settings=dict(SETTINGS)
        )
        self._module, self._default = module, default

    def load(self) -> "LazyGroup":
        """Import the commands once; ``module`` is ``package.module:application``."""
        if not self.commands:
            module, _, attribute = self._module.partition(":")
            app = getattr(import_module(module), attribute or "app")
            # With a callback, an application of one command is a group too.
            app.callback()(lambda: None)
            group = typer.main.get_command(app)
            assert isinstance(group, TyperGroup)
            self.commands.update(group.commands)
        return self

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in the order of their registration."""
        return list(self.load().commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of that name."""
        return self.load().commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments begin with."""
        group = self.load()
        if self._default and args and args[0] not in group.commands and not args[0].startswith("-"):
            args = [self._default, *args]
        return super(LazyGroup, group).resolve_command(ctx, args)


def _flat(function: Function, noun: Noun, annotations: Mapping[str, type[Any]]) -> Callable[..., None]:
    """Return the function as Typer needs it: an option for each field of each bundle."""
    own: list[inspect.Parameter] = []
    shared: list[inspect.Parameter] = []
    bundles: dict[str, tuple[type[Any], list[str]]] = {}
    omitted = frozenset() if noun.namespaced else frozenset({"namespace", "all_namespaces"})
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        bundle, *options = _unpacked(annotations.get(parameter.name, parameter.annotation))
        if not (isinstance(bundle, type) and dataclasses.is_dataclass(bundle)):
            annotation = _filled(parameter.annotation, noun)
            own.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=annotation))
            continue
        hints = get_type_hints(bundle, include_extras=True)
        hints |= {name: Annotated[hints[name], option] for table in options for name, option in table.items()}
        fields = dataclasses.fields(bundle)
        bundles[parameter.name] = (bundle, [field.name for field in fields])
        shared += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
                annotation=_filled(hints[field.name], noun),
            )
            for field in fields
            if field.name not in omitted
        ]
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [context, *own, *shared]

    def flat(**given: Any) -> None:
        ctx: typer.Context = given.pop("ctx")
        for key, value in ctx.find_root().params.items():
            if key in {*given, *omitted} and given.get(key) is None:
                given[key] = value
        for key, (bundle, names) in bundles.items():
            given[key] = bundle(**{name: given[name] for name in names if name in given})
        _run(function, {key: value for key, value in given.items() if key in own_names or key in bundles})

    own_names = {parameter.name for parameter in own}
    flat.__name__ = function.__name__
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {"return": None}
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return flat


def _unpacked(annotation: Any) -> tuple[Any, ...]:
    """Return the type of an annotation, and what is annotated: a Typer option, or those of a bundle by their names."""
    return get_args(annotation) if hasattr(annotation, "__metadata__") else (annotation,)


def _filled(annotation: Any, noun: Noun) -> Any:
    """Return the annotation with the placeholders of its help text replaced."""
    kind, *infos = _unpacked(annotation)
    if not infos or "{" not in (infos[0].help or ""):
        return annotation
    info = copy.copy(infos[0])
    info.help = noun.fill(info.help)
    return Annotated[kind, info]


def _run(function: Function, given: Mapping[str, Any]) -> None:
    """Call the function; errors of the cluster are raised as CommandError."""
    try:
        coroutine = function(**given)
        if coroutine is not None:
            asyncio.run(coroutine)
    except Exception as fault:
        first = first_of(fault)
        if isinstance(first, CommandError):
            raise first from None
        error = cluster_error(first)
        if error is None:
            raise
        raise error from None

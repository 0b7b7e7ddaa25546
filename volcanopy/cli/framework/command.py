"""How a function becomes a command: bundles of options are laid out, coroutines run, faults become sentences.

A Typer application sees one flat function; the command's own function gets whole values.
"""

import asyncio
import dataclasses
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from importlib import import_module
from typing import Any, get_type_hints

import typer
from typer.core import TyperGroup

from volcanopy.cli.errors import CommandError

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""Of every command and group."""

Function = Callable[..., Coroutine[Any, Any, None] | None]


def command(
    app: typer.Typer, name: str, *, examples: Sequence[str] = (), hidden: bool = False, **settings: Any
) -> Callable[[Function], Function]:
    """Register a function as the command ``name`` of an application; it stays as it is for those who call it.

    ``examples`` are whole command lines, shown below the help; ``settings`` go to the command's context.
    """

    def register(function: Function) -> Function:
        app.command(
            name,
            epilog=_epilog(examples),
            context_settings={**SETTINGS, **settings},
            hidden=hidden,
        )(_flat(function))
        return function

    return register


class LazyGroup(TyperGroup):
    """A group of commands whose module is imported when one of them is wanted, not to show that the group exists."""

    def __init__(self, name: str, module: str, help: str) -> None:  # noqa: A002
        super().__init__(
            name=name, help=help, no_args_is_help=True, rich_markup_mode=None, context_settings=dict(SETTINGS)
        )
        self._module = module

    def load(self) -> "LazyGroup":
        """Import the commands, once."""
        if not self.commands:
            app = import_module(self._module).app
            # A group, also where there is but one command.
            app.callback()(lambda: None)
            group = typer.main.get_command(app)
            assert isinstance(group, TyperGroup)
            self.commands.update(group.commands)
        return self

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands, in the order in which they are written."""
        return list(self.load().commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name."""
        return self.load().commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments begin with."""
        return super(LazyGroup, self.load()).resolve_command(ctx, args)


def _epilog(examples: Sequence[str]) -> str | None:
    """The examples as they stand, a line each: the mark keeps them from being wrapped."""
    return "Examples:\n\n\b\n" + "\n".join(f"  {one}" for one in examples) if examples else None


def _flat(function: Function) -> Callable[..., None]:
    """The function as Typer wants it: an option for each field of each bundle."""
    own: list[inspect.Parameter] = []
    shared: list[inspect.Parameter] = []
    bundles: dict[str, tuple[type[Any], list[str]]] = {}
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        bundle = parameter.annotation
        if not (isinstance(bundle, type) and dataclasses.is_dataclass(bundle)):
            own.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        hints = get_type_hints(bundle, include_extras=True)
        fields = dataclasses.fields(bundle)
        bundles[parameter.name] = (bundle, [one.name for one in fields])
        shared += [
            inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[one.name])
            for one in fields
        ]
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [context, *own, *shared]

    def flat(**given: Any) -> None:
        ctx: typer.Context = given.pop("ctx")
        for key, value in ctx.find_root().params.items():
            if key in given and given[key] is None:
                given[key] = value
        for key, (bundle, names) in bundles.items():
            given[key] = bundle(**{name: given.pop(name) for name in names})
        _run(function, given)

    flat.__name__ = function.__name__
    flat.__doc__ = function.__doc__
    flat.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": None}
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return flat


def _run(function: Function, given: Mapping[str, Any]) -> None:
    """Call it; faults of the cluster are told as sentences."""
    try:
        answer = function(**given)
        if answer is not None:
            asyncio.run(answer)
    except Exception as fault:
        first: BaseException = fault
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        if isinstance(first, CommandError):
            raise first from None
        from volcanopy.cli.errors import cluster_error

        stop = cluster_error(first)
        if stop is None:
            raise
        raise stop from None

"""Plugins and actions that others have written: found by their entry points, looked over, and put beside our own.

A package offers a plugin of the scheduler as an entry point of the group ``volcanopy.plugins``, an action as one of
``volcanopy.actions``, a plugin of jobs as one of ``volcanopy.job_plugins``. The entry point's name is the one that the
configuration file, or a job's ``spec.plugins``, uses.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from volcanopy.jobcontroller.plugins import plugin as jobplugin
from volcanopy.jobcontroller.plugins import registry as jobregistry
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.framework.plugin import Arguments, Plugin
from volcanopy.scheduler.framework.registry import Action, Registry

PLUGINS = "volcanopy.plugins"
ACTIONS = "volcanopy.actions"
JOB_PLUGINS = "volcanopy.job_plugins"

T = TypeVar("T")


class ThirdPartyError(ValueError):
    """What is wrong with an installed package, in one sentence that names it."""


def registry() -> Registry:
    """The plugins and actions of volcanopy and of all installed packages; raises ThirdPartyError."""
    ours = builtin()
    plugins = _found("plugin", entry_points(group=PLUGINS), ours.plugins, _plugin)
    actions = _found("action", entry_points(group=ACTIONS), ours.actions, _action)
    return ours.with_plugins(*plugins).with_actions(*actions)


def job_registry() -> jobregistry.Registry:
    """The job plugins of volcanopy and, after them, of all installed packages by name; raises ThirdPartyError."""
    ours = jobregistry.JOB_PLUGINS
    theirs = _found("job plugin", entry_points(group=JOB_PLUGINS), ours, _job_plugin)
    found = {**ours, **{plugin.name: plugin for plugin in theirs}}
    for plugin in theirs:
        if unknown := next((name for name in plugin.implies if name not in found), None):
            told = f"job plugin {plugin.name!r} implies {unknown!r}, which does not exist"
            raise ThirdPartyError(f"{told}: install the package that has it, or uninstall this one")
    return found


def _found(kind: str, points: Iterable[EntryPoint], ours: Mapping[str, Any], check: Callable[[Any], T]) -> list[T]:
    found: dict[str, tuple[str, T]] = {}
    for point in sorted(points, key=lambda point: (point.name, point.value)):
        said = f"{kind} {point.name!r} of {_package(point)}"
        if point.name in ours:
            raise ThirdPartyError(f"{said} has the name of a {kind} that comes with volcanopy: give it another")
        if point.name in found:
            raise ThirdPartyError(f"{said} has the name of one of {found[point.name][0]}: uninstall one of the two")
        try:
            found[point.name] = (_package(point), check(_load(point)))
        except _Fault as fault:
            raise ThirdPartyError(f"{said} (entry point {point.value}) {fault}") from fault.__cause__
    return [thing for _, thing in found.values()]


class _Fault(Exception):
    """What is wrong with one entry point, to be said after its name."""


class _Named:
    """A thing that was loaded, with the name that its entry point gives it."""

    def __init__(self, name: str, thing: Any) -> None:
        self.name, self.thing = name, thing

    def must(self, holds: bool, otherwise: str) -> None:
        """Refuse the thing unless this holds."""
        if not holds:
            raise _Fault(otherwise)

    def must_be_named(self) -> None:
        """Refuse a thing that goes by another name than its entry point."""
        name = getattr(self.thing, "name", None)
        self.must(name == self.name, f"calls itself {name!r}: let its name and that of its entry point be the same")


def _load(point: EntryPoint) -> _Named:
    try:
        return _Named(point.name, point.load())
    except Exception as error:
        why = " ".join(str(error).split()) or "no more is said"
        raise _Fault(f"cannot be loaded: {type(error).__name__}: {why}; mend the package or uninstall it") from error


def _plugin(loaded: _Named) -> type[Plugin[Any]]:
    plugin = loaded.thing
    is_plugin = isinstance(plugin, type) and issubclass(plugin, Plugin)
    loaded.must(is_plugin, f"is {_what(plugin)}, not a subclass of volcanopy.scheduler.framework.plugin.Plugin")
    loaded.must_be_named()
    arguments = plugin.arguments
    is_model = isinstance(arguments, type) and issubclass(arguments, Arguments)
    loaded.must(is_model, f"declares {_what(arguments)} as its arguments, not a subclass of Arguments")
    found: type[Plugin[Any]] = plugin
    return found


def _job_plugin(loaded: _Named) -> type[jobplugin.JobPlugin[Any]]:
    plugin = loaded.thing
    is_plugin = isinstance(plugin, type) and issubclass(plugin, jobplugin.JobPlugin)
    base = "volcanopy.jobcontroller.plugins.plugin.JobPlugin"
    loaded.must(is_plugin, f"is {_what(plugin)}, not a subclass of {base}")
    loaded.must_be_named()
    model = getattr(plugin, "arguments_model", None)
    is_model = isinstance(model, type) and issubclass(model, jobplugin.Arguments)
    loaded.must(is_model, "does not say which arguments it takes: name them in the brackets of JobPlugin[...]")
    implied = plugin.implies
    are_names = isinstance(implied, tuple) and all(isinstance(name, str) for name in implied)
    loaded.must(are_names, f"implies {implied!r}: give it a tuple of the names of plugins")
    found: type[jobplugin.JobPlugin[Any]] = plugin
    return found


def _action(loaded: _Named) -> Action[Any]:
    if isinstance(loaded.thing, type):
        try:
            loaded.thing = loaded.thing()
        except Exception as error:
            raise _Fault(f"cannot be made: {type(error).__name__}: {error}") from error
    action = loaded.thing
    loaded.must(callable(action), f"is {_what(action)}, which cannot be called: give it __call__(session, arguments)")
    loaded.must_be_named()
    arguments = getattr(action, "arguments", None)
    are_names = isinstance(arguments, tuple) and all(isinstance(name, str) for name in arguments)
    loaded.must(are_names, "does not say which arguments it takes: give it a tuple of their names as arguments")
    found: Action[Any] = action
    return found


def _what(thing: Any) -> str:
    return (
        f"the class {thing.__qualname__}"
        if isinstance(thing, type)
        else f"an object of the type {type(thing).__qualname__}"
    )


def _package(point: EntryPoint) -> str:
    return f"package {point.dist.name} {point.dist.version}" if point.dist else "an unnamed package"

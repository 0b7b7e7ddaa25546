"""Plugins and actions of installed packages, loaded from their entry points and validated.

A package provides a scheduler plugin as an entry point of the group ``volcanopy.plugins``, an action as one of
``volcanopy.actions``, a job plugin as one of ``volcanopy.job_plugins``. The name of the entry point is the one that the
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
    """An installed package is invalid; the message names it."""


def registry() -> Registry:
    """Return the plugins and actions of volcanopy and of all installed packages. Raises ThirdPartyError."""
    ours = builtin()
    plugins = _loaded("plugin", entry_points(group=PLUGINS), ours.plugins, _plugin)
    actions = _loaded("action", entry_points(group=ACTIONS), ours.actions, _action)
    return ours.with_plugins(*plugins).with_actions(*actions)


def job_registry() -> jobregistry.Registry:
    """Return the job plugins of volcanopy, then those of all installed packages by name. Raises ThirdPartyError."""
    ours = jobregistry.JOB_PLUGINS
    theirs = _loaded("job plugin", entry_points(group=JOB_PLUGINS), ours, _job_plugin)
    plugins = {**ours, **{plugin.name: plugin for plugin in theirs}}
    for plugin in theirs:
        if unknown := next((name for name in plugin.implies if name not in plugins), None):
            problem = f"job plugin {plugin.name!r} implies {unknown!r}, which does not exist"
            raise ThirdPartyError(f"{problem}: install the package that has it, or uninstall this one")
    return plugins


def _loaded(kind: str, points: Iterable[EntryPoint], ours: Mapping[str, Any], check: Callable[[Any], T]) -> list[T]:
    loaded: dict[str, tuple[str, T]] = {}
    for point in sorted(points, key=lambda point: (point.name, point.value)):
        origin = f"{kind} {point.name!r} of {_package(point)}"
        if point.name in ours:
            raise ThirdPartyError(f"{origin} has the name of a {kind} that comes with volcanopy: give it another")
        if point.name in loaded:
            raise ThirdPartyError(f"{origin} has the name of one of {loaded[point.name][0]}: uninstall one of the two")
        try:
            loaded[point.name] = (_package(point), check(_load(point)))
        except _Fault as fault:
            raise ThirdPartyError(f"{origin} (entry point {point.value}) {fault}") from fault.__cause__
    return [item for _, item in loaded.values()]


class _Fault(Exception):
    """An entry point is invalid; the message continues a sentence that starts with its name."""


class _Named:
    """A loaded object with the name of its entry point."""

    def __init__(self, name: str, item: Any) -> None:
        self.name, self.item = name, item

    def must(self, condition: bool, problem: str) -> None:
        """Reject the object unless the condition is true."""
        if not condition:
            raise _Fault(problem)

    def must_be_named(self) -> None:
        """Reject an object whose name differs from that of its entry point."""
        name = getattr(self.item, "name", None)
        self.must(name == self.name, f"has the name {name!r}: give it the name of its entry point")


def _load(point: EntryPoint) -> _Named:
    try:
        return _Named(point.name, point.load())
    except Exception as error:
        why = " ".join(str(error).split()) or "without a message"
        raise _Fault(f"cannot be loaded: {type(error).__name__}: {why}; mend the package or uninstall it") from error


def _plugin(loaded: _Named) -> type[Plugin[Any]]:
    plugin = loaded.item
    is_plugin = isinstance(plugin, type) and issubclass(plugin, Plugin)
    loaded.must(is_plugin, f"is {_what(plugin)}, not a subclass of volcanopy.scheduler.framework.plugin.Plugin")
    loaded.must_be_named()
    arguments = plugin.arguments
    is_model = isinstance(arguments, type) and issubclass(arguments, Arguments)
    loaded.must(is_model, f"declares {_what(arguments)} as its arguments, not a subclass of Arguments")
    checked: type[Plugin[Any]] = plugin
    return checked


def _job_plugin(loaded: _Named) -> type[jobplugin.JobPlugin[Any]]:
    plugin = loaded.item
    is_plugin = isinstance(plugin, type) and issubclass(plugin, jobplugin.JobPlugin)
    base = "volcanopy.jobcontroller.plugins.plugin.JobPlugin"
    loaded.must(is_plugin, f"is {_what(plugin)}, not a subclass of {base}")
    loaded.must_be_named()
    model = getattr(plugin, "arguments_model", None)
    is_model = isinstance(model, type) and issubclass(model, jobplugin.Arguments)
    loaded.must(is_model, "does not declare its arguments: name them in the brackets of JobPlugin[...]")
    implied = plugin.implies
    are_names = isinstance(implied, tuple) and all(isinstance(name, str) for name in implied)
    loaded.must(are_names, f"implies {implied!r}: give it a tuple of the names of plugins")
    checked: type[jobplugin.JobPlugin[Any]] = plugin
    return checked


def _action(loaded: _Named) -> Action[Any]:
    if isinstance(loaded.item, type):
        try:
            loaded.item = loaded.item()
        except Exception as error:
            raise _Fault(f"cannot be made: {type(error).__name__}: {error}") from error
    action = loaded.item
    loaded.must(callable(action), f"is {_what(action)}, which cannot be called: give it __call__(session, arguments)")
    loaded.must_be_named()
    arguments = getattr(action, "arguments", None)
    are_names = isinstance(arguments, tuple) and all(isinstance(name, str) for name in arguments)
    loaded.must(are_names, "does not declare its arguments: give it a tuple of their names as arguments")
    checked: Action[Any] = action
    return checked


def _what(item: Any) -> str:
    return (
        f"the class {item.__qualname__}"
        if isinstance(item, type)
        else f"an object of the type {type(item).__qualname__}"
    )


def _package(point: EntryPoint) -> str:
    return f"package {point.dist.name} {point.dist.version}" if point.dist else "an unnamed package"

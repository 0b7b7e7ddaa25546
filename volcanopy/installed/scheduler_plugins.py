"""Scheduler plugins and actions: those of volcanopy and those of installed packages."""

from typing import Any

from volcanopy.installed.entry_points import Fault, Installed, Loaded, what
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy import definition
from volcanopy.scheduler.policy.plugin import Arguments, Plugin
from volcanopy.scheduler.policy.registry import Action, Registry

PLUGINS = "volcanopy.plugins"
ACTIONS = "volcanopy.actions"


def registry() -> Registry:
    """Return the plugins and actions of volcanopy and of all installed packages.

    It and the use of an invalid one raise ThirdPartyError.
    """
    builtins = builtin()
    return Registry(
        Installed("plugin", PLUGINS, builtins.plugins, _plugin), Installed("action", ACTIONS, builtins.actions, _action)
    )


def _plugin(candidate: Loaded) -> type[Plugin[Any]]:
    fault = next(definition.faults(candidate.item), "")
    candidate.must(not fault, fault)
    candidate.must_be_named()
    checked: type[Plugin[Any]] = candidate.item
    return checked


def _action(candidate: Loaded) -> Action[Any]:
    if isinstance(candidate.item, type):
        try:
            candidate.item = candidate.item()
        except Exception as error:
            raise Fault(f"cannot be made: {type(error).__name__}: {error}") from error
    action = candidate.item
    candidate.must(callable(action), f"is {what(action)}, which cannot be called: give it __call__(session, arguments)")
    candidate.must_be_named()
    arguments = getattr(action, "arguments", None)
    is_declared = isinstance(arguments, type) and issubclass(arguments, Arguments)
    candidate.must(is_declared, "does not declare its arguments: declare a subclass of volcanopy.plugin.Arguments")
    checked: Action[Any] = action
    return checked

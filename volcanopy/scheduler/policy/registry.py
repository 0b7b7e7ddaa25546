"""The plugins and actions that exist, as a value: nothing is registered by being imported."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar, cast

from volcanopy.scheduler.policy.definition import require_valid
from volcanopy.scheduler.policy.plugin import Arguments, NoArguments, Plugin

SessionT_contra = TypeVar("SessionT_contra", contravariant=True)


class Action(Protocol[SessionT_contra]):
    """A step of the cycle. ``SessionT_contra`` is the session's type, which is above this layer."""

    name: ClassVar[str]
    arguments: ClassVar[type[Arguments]]
    """What the configuration file may set, as of plugins; the action is called with an instance."""

    def __call__(self, session: SessionT_contra, arguments: Any) -> None:
        """Do the step on the session."""
        ...


def action(name: str, arguments: type[Arguments] = NoArguments) -> Callable[[Callable[[Any, Any], None]], Action[Any]]:
    """Declare a function of the session and the arguments to be an action."""

    def declare(run: Any) -> Action[Any]:
        run.name, run.arguments = name, arguments
        return cast("Action[Any]", run)

    return declare


@dataclass(frozen=True)
class Registry:
    """Plugins and actions by the names that the configuration file uses."""

    plugins: Mapping[str, type[Plugin[Any]]]
    actions: Mapping[str, Action[Any]]

    def with_plugins(self, *plugins: type[Plugin[Any]]) -> "Registry":
        """Return the registry with more plugins. Raises PluginError for one that violates the contract."""
        for plugin in plugins:
            require_valid(plugin)
        return Registry({**self.plugins, **{plugin.name: plugin for plugin in plugins}}, self.actions)

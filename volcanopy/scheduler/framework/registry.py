"""Which plugins and actions there are: a value, not a global that imports fill."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from volcanopy.scheduler.framework.plugin import Plugin

if TYPE_CHECKING:
    from volcanopy.scheduler.session.session import Session


class Action(Protocol):
    """A step of the cycle."""

    name: ClassVar[str]
    arguments: ClassVar[tuple[str, ...]]
    """The keys that the configuration file may give it; what they must say, a ``model`` of pydantic may tell as well."""

    def __call__(self, session: "Session", arguments: Mapping[str, Any]) -> None:
        """Do the step on the session."""
        ...


@dataclass(frozen=True)
class Registry:
    """Plugins and actions by the names that the configuration file uses."""

    plugins: Mapping[str, type[Plugin[Any]]]
    actions: Mapping[str, Action]

    def with_plugins(self, *plugins: type[Plugin[Any]]) -> "Registry":
        """The same with more plugins."""
        return Registry({**self.plugins, **{plugin.name: plugin for plugin in plugins}}, self.actions)

    def with_actions(self, *actions: Action) -> "Registry":
        """The same with more actions."""
        return Registry(self.plugins, {**self.actions, **{action.name: action for action in actions}})

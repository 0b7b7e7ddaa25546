"""The hooks that the base class of plugins declares, and which of them a plugin implements."""

from functools import lru_cache
from typing import Any

from volcanopy.scheduler.policy.plugin import Hook, Plugin

HOOKS: dict[str, Hook] = {
    name: method.__hook__
    for name, method in vars(Plugin).items()
    if isinstance(getattr(method, "__hook__", None), Hook)
}
"""All hooks by name."""

SWITCHES_WITHOUT_EFFECT = frozenset({"enabledClusterOrder", "enableBestNode", "enableTargetJob"})
"""Volcano's ``enable*`` keys that belong to no hook here: accepted, with a warning."""

SWITCHES: frozenset[str] = (
    frozenset({specification.switch for specification in HOOKS.values() if specification.switch})
    | SWITCHES_WITHOUT_EFFECT
    | {"enableHierarchy"}
)
"""Every ``enable*`` key of the configuration file."""


@lru_cache(maxsize=256)
def implemented(kind: Any) -> frozenset[str]:
    """Return the hooks that a class of plugins implements."""
    return frozenset(name for name in HOOKS if getattr(kind, name) is not getattr(Plugin, name))

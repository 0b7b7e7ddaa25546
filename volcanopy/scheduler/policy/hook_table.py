"""The hooks that the base class of plugins and the roles declare, and which of them a plugin implements."""

from functools import lru_cache
from typing import Any

from volcanopy.scheduler.policy import keys_without_effect, roles
from volcanopy.scheduler.policy.plugin import Hook, Plugin

_DECLARATIONS: dict[str, tuple[type[Any], Hook]] = {
    name: (declaring, method.__hook__)
    for declaring in (Plugin, *roles.ROLES)
    for name, method in vars(declaring).items()
    if isinstance(getattr(method, "__hook__", None), Hook)
}
HOOKS: dict[str, Hook] = {name: specification for name, (_, specification) in _DECLARATIONS.items()}
"""All hooks by name."""


def declaration(name: str) -> Any:
    """Return the method by which the base class or a role declares a hook, with its arguments and its type."""
    return getattr(_DECLARATIONS[name][0], name)


SWITCHES_OF_THE_ENGINE = frozenset(
    (
        *("enableJobStarving", "enableReservedNodes", "enabledHyperNodeGradient", "enabledHyperNodeOrder"),
        *("enabledSubJobOrder", "enabledSubJobPipelined", "enabledSubJobReady"),
    )
)
"""The keys that turn off rules of the engine for a plugin of that name."""

SWITCHES_OF_SHARES = frozenset({"enabledAllocatable", "enablePreemptive"})
"""The keys that turn off for a policy what follows from its shares: limits on allocations, and reclaim."""

SWITCHES: frozenset[str] = (
    frozenset({specification.switch for specification in HOOKS.values() if specification.switch})
    | SWITCHES_OF_THE_ENGINE
    | frozenset(moment.switch for moment in roles.Moment)
    | frozenset(purpose.value for purpose in roles.Purpose if not purpose.is_for_gang)
    | SWITCHES_OF_SHARES
    | keys_without_effect.SWITCHES.keys()
    | {"enableHierarchy"}
)
"""Every ``enable*`` key of the configuration file."""


@lru_cache(maxsize=256)
def implemented(kind: Any) -> frozenset[str]:
    """Return the hooks that a class of plugins implements; a policy that protects victims also allows those it does not."""
    names = frozenset(
        name
        for name, (declaring, _) in _DECLARATIONS.items()
        if issubclass(kind, declaring) and getattr(kind, name) is not getattr(declaring, name)
    )
    return names | {"allows"} if "unprotected" in names else names

"""The scheduler's configuration: Volcano's file format, read strictly.

An unknown action, plugin, switch or argument is an error with one sentence that names it and what was probably meant.
"""

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from volcanopy.api.config_file import ConfigError, mapping_of
from volcanopy.scheduler.policy import keys_without_effect
from volcanopy.scheduler.policy.hook_table import SWITCHES
from volcanopy.scheduler.policy.keys_without_effect import ACTION_ARGUMENTS, PLUGIN_ARGUMENTS, effective
from volcanopy.scheduler.policy.metrics_source import Metrics
from volcanopy.scheduler.policy.plugin import Arguments, Plugin
from volcanopy.scheduler.policy.registry import Registry

A = TypeVar("A", bound=Arguments)

DEFAULT = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: slowdown
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
  - name: fragmentation
  - name: reservation
"""
"""The default of Volcano's chart, with reservations for jobs that wait, the order by expected slowdown where run times are known,
and placement by fragmentation where nodes have GPUs.
"""

OPTIONAL = {
    "datalocality", "demand", "deviceshare", "energy", "interference", "loadvariation", "primetime", "targetload", "telemetry"
}  # fmt: skip
"""The plugins of the extra ``policies``, for the error where it is not installed."""

_OFF_UNLESS_SET = {"enableHierarchy", "enabledClusterOrder"}


@dataclass(frozen=True)
class PluginConfig:
    """A plugin of a tier: its class, its arguments, and the switches that are off for it."""

    plugin: type[Plugin[Any]]
    arguments: Arguments
    off: frozenset[str] = frozenset()
    hierarchy: bool = False

    @property
    def name(self) -> str:
        """The name that the configuration file uses."""
        return self.plugin.name


@dataclass(frozen=True)
class SchedulerConfig:
    """What a cycle does: actions in order, and the tiers of plugins that they ask."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginConfig, ...], ...]
    action_arguments: Mapping[str, Arguments] = field(default_factory=dict)
    metrics: Metrics | None = None
    """Where the nodes' real load comes from, if it is measured."""
    warnings: tuple[str, ...] = ()
    """Keys of the file that have no effect, one sentence each."""

    def enables(self, plugin: str, switch: str = "") -> bool:
        """Return whether a plugin of this name is configured, and this switch is not off for it."""
        return any(switch not in off for off in self._off.get(plugin, ()))

    @cached_property
    def _off(self) -> Mapping[str, list[frozenset[str]]]:
        """By the name of each configured plugin, the switches that are off for it."""
        switches: dict[str, list[frozenset[str]]] = {}
        for entry in chain.from_iterable(self.tiers):
            switches.setdefault(entry.name, []).append(entry.off)
        return switches

    @property
    def plugins(self) -> frozenset[str]:
        """The names of all plugins in use."""
        return frozenset(self._off)


def parse(text: str, registry: Registry) -> SchedulerConfig:
    """Read a configuration file's text; raises ConfigError."""
    document = mapping_of(text, "actions: allocate")
    _require_known("the scheduler configuration", "key", document, ("actions", "tiers", "configurations", "metrics"))
    actions = _actions(document.get("actions"), registry)
    tiers = document.get("tiers") or []
    if not isinstance(tiers, list):
        raise ConfigError("tiers: must be a list of tiers, each with a list of plugins")
    configured = tuple(_tier(f"tiers[{number}]", tier, registry) for number, tier in enumerate(tiers))
    config = SchedulerConfig(
        actions=actions,
        tiers=_with_reservations_of_sla(configured, registry),
        action_arguments=_action_arguments(document.get("configurations") or [], registry),
        metrics=_arguments("metrics", block, Metrics, {}) if (block := document.get("metrics")) else None,
        warnings=tuple(_without_effect(document)),
    )
    _reject_conflicts(config)
    return config


def _without_effect(document: Mapping[str, Any]) -> Iterator[str]:
    for number, tier in enumerate(document.get("tiers") or []):
        for place, entry in enumerate(tier.get("plugins") or []):
            path, name = f"tiers[{number}].plugins[{place}]", entry["name"]
            yield from _ignored(path, name, entry, keys_without_effect.SWITCHES)
            yield from _ignored(f"{path}.arguments", name, entry.get("arguments") or {}, PLUGIN_ARGUMENTS.get(name, {}))
    for number, entry in enumerate(document.get("configurations") or []):
        name, path = entry["name"], f"configurations[{number}].arguments"
        yield from _ignored(path, name, entry.get("arguments") or {}, ACTION_ARGUMENTS.get(name, {}))


def _ignored(path: str, name: str, given: Mapping[str, Any], reasons: Mapping[str, str]) -> Iterator[str]:
    for key in sorted(given.keys() & reasons.keys()):
        yield f"{path}.{key} ({name}): has no effect: {reasons[key]}"


def default(registry: Registry) -> SchedulerConfig:
    """The configuration in force where none is given."""
    return parse(DEFAULT, registry)


def _actions(value: Any, registry: Registry) -> tuple[str, ...]:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError('actions: must name the actions in order, such as "enqueue, allocate, backfill"')
    names = tuple(name.strip() for name in value.split(",") if name.strip())
    _require_known("actions", "action", names, registry.actions)
    return names


def _tier(path: str, tier: Any, registry: Registry) -> tuple[PluginConfig, ...]:
    if not isinstance(tier, dict) or not isinstance(tier.get("plugins") or [], list):
        raise ConfigError(f"{path}: must be a mapping with a list of plugins")
    _require_known(path, "key", tier, ("plugins",))
    return tuple(
        _plugin(f"{path}.plugins[{number}]", entry, registry) for number, entry in enumerate(tier.get("plugins") or [])
    )


def _with_reservations_of_sla(
    tiers: tuple[tuple[PluginConfig, ...], ...], registry: Registry
) -> tuple[tuple[PluginConfig, ...], ...]:
    """Return the tiers with reservations for overdue jobs, where the file lists sla and not reservation."""
    listed = {plugin.name for tier in tiers for plugin in tier}
    plugin = registry.plugins.get("reservation")
    if plugin is None or "sla" not in listed or "reservation" in listed:
        return tiers
    return (*tiers, (PluginConfig(plugin, plugin.arguments.model_validate({"after": "overdue"})),))


def _plugin(path: str, entry: Any, registry: Registry) -> PluginConfig:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise ConfigError(f"{path}: must be a mapping with a name")
    name = entry["name"]
    _require_known(f"{path}.name", "plugin", (name,), registry.plugins)
    plugin = registry.plugins[name]
    _require_known(f"{path} ({name})", "key", entry, ("name", "arguments", *SWITCHES))
    switches = {key: value for key, value in entry.items() if key in SWITCHES}
    for key, value in switches.items():
        if not isinstance(value, bool):
            raise ConfigError(f"{path}.{key} ({name}): must be true or false, not {value!r}")
    return PluginConfig(
        plugin=plugin,
        arguments=_arguments(
            f"{path}.arguments ({name})", entry.get("arguments") or {}, plugin.arguments, PLUGIN_ARGUMENTS.get(name, {})
        ),
        off=frozenset(key for key, value in switches.items() if not value and key not in _OFF_UNLESS_SET),
        hierarchy=bool(switches.get("enableHierarchy", False)),
    )


def _arguments(path: str, value: Any, model: type[A], ignored: Mapping[str, str]) -> A:
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: must be a mapping")
    try:
        return model.model_validate(effective(value, ignored))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            *outer, last = first["loc"]
            known = [*_fields(model, outer), *(() if outer else ignored)]
            raise ConfigError(
                f"{path}: unknown {'key' if model is Metrics else 'argument'} {where!r}{suggestion(str(last), known)}"
            ) from None
        message = str(first["msg"]).removeprefix("Value error, ")
        message = message[:1].lower() + message[1:]
        message = f"{path}.{where}: {message}, not {first.get('input')!r}" if where else f"{path}: {message}"
        raise ConfigError(message) from None


def _fields(model: Any, path: Iterable[int | str]) -> list[str]:
    """The names that the mapping at this path of the arguments may have; empty if any will do."""
    for step in path:
        if isinstance(model, type) and issubclass(model, BaseModel):
            fields = model.model_fields.items()
            model = next((field.annotation for name, field in fields if step in {field.alias, name}), None)
        else:
            model = next(iter(reversed(get_args(model))), None) if not isinstance(step, int) else get_args(model)[0]
    if not isinstance(model, type) or not issubclass(model, BaseModel):
        return []
    return [field.alias or name for name, field in model.model_fields.items()]


def _action_arguments(value: Any, registry: Registry) -> dict[str, Arguments]:
    if not isinstance(value, list):
        raise ConfigError("configurations: must be a list of entries with a name and arguments")
    arguments: dict[str, Arguments] = {}
    for number, entry in enumerate(value):
        path = f"configurations[{number}]"
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise ConfigError(f"{path}: must be a mapping with a name")
        _require_known(path, "key", entry, ("name", "arguments"))
        name, given = entry["name"], entry.get("arguments") or {}
        _require_known(f"{path}.name", "action", (name,), registry.actions)
        model, ignored = registry.actions[name].arguments, ACTION_ARGUMENTS.get(name, {})
        arguments.setdefault(name, _arguments(f"{path}.arguments ({name})", given, model, ignored))
    return arguments


def _reject_conflicts(config: SchedulerConfig) -> None:
    for number, tier in enumerate(config.tiers):
        names = {plugin.name for plugin in tier}
        if "proportion" in names and any(plugin.name == "drf" and plugin.hierarchy for plugin in tier):
            raise ConfigError(
                f"tiers[{number}]: proportion and drf with enableHierarchy contradict each other: remove one of them"
            )


def _require_known(path: str, kind: str, names: Iterable[Any], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            if kind == "plugin" and name in OPTIONAL:
                raise ConfigError(f"{path}: plugin {name!r} is not installed: install volcanopy[policies]")
            raise ConfigError(f"{path}: unknown {kind} {name!r}{suggestion(str(name), known)}")


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown word: a similar word, or all."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f", did you mean {close[0]!r}?"
    return f"; known are: {', '.join(known)}" if known else "; it takes none"

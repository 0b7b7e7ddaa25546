"""``python -m hack.configurationpage`` writes docs/scheduler-configuration.md from the actions and plugins as they are declared."""

import inspect
import json
import sys
import textwrap
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from volcanopy.api.attribute_docstrings import attribute_docstrings
from volcanopy.scheduler.policy import keys_without_effect
from volcanopy.scheduler.policy.config import DEFAULT
from volcanopy.scheduler.policy.hook_table import SWITCHES
from volcanopy.scheduler.policy.metrics_source import Metrics
from volcanopy_policies.devices.deviceshare import DeviceShare
from volcanopy_policies.devices.gpus.device_names import DeviceNames
from volcanopy_policies.devices.npus import npu_kinds
from volcanopy_testing.notation import all_policies

PAGE = Path(__file__).parents[1] / "docs" / "scheduler-configuration.md"

_HEAD = """\
# Scheduler configuration

The file has Volcano's format and is read strictly: an unknown action, plugin, switch or argument is rejected with
a message that suggests the closest valid name. The scheduler reads the file again when it changes. While the file is invalid, the scheduler
uses the last valid one and logs the error. `make golden` generates this page from the code.

The default configuration:

```yaml scheduler
{default}```

- `actions` run in this order in each cycle.
- `tiers` are lists of plugins. If several plugins vote, the first tier with a vote decides.
- `configurations` contains arguments of actions.
- `metrics` has the sources of [measures](measures.md) of nodes, such as the load of cpu, for plugins that read them.

`volcanopy plan -f cluster.json --config FILE` shows what the scheduler would decide with a configuration.
"""

_EXAMPLE = """\
A configuration with most features:

```yaml scheduler
actions: "enqueue, allocate, preempt, reclaim, backfill"
configurations:
- name: preempt
  arguments: {predicateErrorCacheEnable: true}
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
  - name: pdb
  - name: sla
    arguments: {sla-waiting-time: 2h}
- plugins:
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: capacity
    enableHierarchy: true
  - name: nodeorder
  - name: binpack
    arguments: {binpack.weight: 5, binpack.resources: nvidia.com/gpu, binpack.resources.nvidia.com/gpu: 10}
```
"""


def page() -> str:
    """The text of docs/scheduler-configuration.md."""
    registry = all_policies()
    parts = [
        _HEAD.format(default=DEFAULT),
        _EXAMPLE,
        "## Actions\n",
        "| action | description | arguments |\n|---|---|---|",
    ]
    for name, action in sorted(registry.actions.items()):
        fields = action.arguments.model_fields.items()
        arguments = ", ".join(f"`{field.alias or key}`" for key, field in fields)
        parts.append(f"| `{name}` | {_first(action.__doc__)} | {arguments} |")
    parts.append("\n## Switches\n")
    parts.append(
        "The entry of a plugin may disable one of its hooks. The keys are Volcano's. Their default is true, except for the last two:\n"
    )
    late = ("enableHierarchy", "enabledClusterOrder")
    switches = [*sorted(SWITCHES - set(late)), *late]
    parts.append(_wrapped(", ".join(f"`{switch}`" for switch in switches) + ".") + "\n")
    parts.append("## Plugins\n")
    for name, plugin in sorted(registry.plugins.items()):
        parts.append(f"### {name}\n\n{_wrapped(_prose(plugin.__doc__))}\n")
        parts += _table(plugin.arguments)
        if name == DeviceShare.name:
            parts.append("The names in `deviceshare.names`, by the default ones:\n\n| name | description |\n|---|---|")
            descriptions = attribute_docstrings(DeviceNames)
            fields = DeviceNames.model_fields.items()
            parts.append("".join(f"| `{field.alias}` | {descriptions[key]} |\n" for key, field in fields))
    parts.append("## Measures\n\nThe block `metrics`. See [measures](measures.md).\n")
    parts += _table(Metrics)
    parts.append(
        "## Keys without effect\n\nThese keys of Volcano are accepted with a warning; those in"
        "\n`deviceshare.vnpus` without, since the list is that of the device plugin.\n"
    )
    parts.append("| of | key | why it has no effect |\n|---|---|---|")
    tables = {**keys_without_effect.ACTION_ARGUMENTS, **keys_without_effect.PLUGIN_ARGUMENTS}
    tables["deviceshare.vnpus"] = npu_kinds.KEYS_WITHOUT_EFFECT
    for name, reasons in [
        ("every plugin", keys_without_effect.SWITCHES),
        *((f"`{name}`", tables[name]) for name in tables),
    ]:
        parts += [f"| {name} | `{key}` | {reason} |" for key, reason in reasons.items()]
    return "\n".join(parts).rstrip() + "\n"


def _table(model: type[BaseModel]) -> list[str]:
    if not model.model_fields:
        return []
    descriptions = attribute_docstrings(model)
    rows = ["| argument | default | description |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        rows.append(
            f"| `{field.alias or name}` | {_default(field)} | {(field.description or descriptions.get(name, '')).replace('``', '`')} |"
        )
    return [*rows, ""]


def _default(field: FieldInfo) -> str:
    value: Any = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, BaseModel | dict | list | tuple) or value is None or value == "":
        return ""
    if isinstance(value, timedelta):
        minutes, seconds = divmod(int(value.total_seconds()), 60)
        return f"`{minutes}m`" if minutes else f"`{seconds}s`"
    if isinstance(value, Enum):
        value = value.value
    return f"`{json.dumps(value) if isinstance(value, bool) else value}`"


def _first(doc: str | None) -> str:
    return inspect.cleandoc(doc or "").split("\n\n")[0].replace("\n", " ")


def _prose(doc: str | None) -> str:
    return " ".join(inspect.cleandoc(doc or "").replace("``", "`").split())


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 128, break_long_words=False, break_on_hyphens=False)


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

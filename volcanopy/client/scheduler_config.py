"""The scheduler's configuration in the cluster, for commands that do not import the scheduler."""

import os

from volcanopy.client.errors import CommandError
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden, NotFound
from volcanopy.kube.client.raw_kinds import CONFIG_MAPS

DEFAULT_MAP = "volcanopy-system/volcanopy-scheduler"
"""ConfigMap of the scheduler's configuration in the chart."""
MAP_VARIABLE = "VOLCANOPY_CONFIG_MAP"
"""Environment variable with another ConfigMap of it, ``namespace/name``: of a release with another name."""
KEY = "scheduler.yaml"


def chart_map() -> str:
    """Return the ConfigMap of the scheduler's configuration, ``namespace/name``. Raises CommandError."""
    result = os.environ.get(MAP_VARIABLE) or DEFAULT_MAP
    if result.count("/") != 1 or not all(result.split("/")):
        raise CommandError(f"{MAP_VARIABLE}: {result!r}: must be NAMESPACE/NAME of a ConfigMap")
    return result


async def configured(client: Client) -> str:
    """Return the configuration in the ConfigMap of the chart; empty if it does not exist or may not be read."""
    namespace, _, name = chart_map().partition("/")
    try:
        data = (await client.get(CONFIG_MAPS, namespace, name)).get("data") or {}
    except (NotFound, Forbidden):
        return ""
    return str(data.get(KEY, ""))


def plugin_names(text: str) -> frozenset[str] | None:
    """Return the plugins that a configuration names, whether they exist or not; None if it is not one."""
    from volcanopy.api.config_file import ConfigError, mapping_of  # noqa: PLC0415 - imports pydantic

    try:
        tiers = mapping_of(text, "actions: allocate").get("tiers")
    except ConfigError:
        return None
    plugins = [tier.get("plugins") for tier in tiers if isinstance(tier, dict)] if isinstance(tiers, list) else []
    entries = [entry for plugins_of_tier in plugins if isinstance(plugins_of_tier, list) for entry in plugins_of_tier]
    return frozenset(str(entry.get("name")) for entry in entries if isinstance(entry, dict))

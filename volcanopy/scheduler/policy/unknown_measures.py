"""Which measures the configured plugins read and no node, or not every node, has."""

from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.policy.config import SchedulerConfig


def unknown_measures(snapshot: Snapshot, config: SchedulerConfig) -> dict[str, str]:
    """Return the measures that plugins read and that are unknown for some nodes, each with a sentence."""
    readers: dict[str, set[str]] = {}
    for tier in config.tiers:
        for plugin in tier:
            for name in plugin.arguments.measures_read:
                readers.setdefault(name, set()).add(plugin.name)
    total = len(snapshot.nodes)
    sentences = {}
    for name, plugins in sorted(readers.items()):
        known = int(snapshot.measure(name).known.sum())
        if known < total:
            series = snapshot.measures.nodes.get(name)
            old = (0 if series is None else int(series.known.sum())) - known
            why = (
                f", {old} of them older than {snapshot.measures.measured.max_age.total_seconds():.0f} s" if old else ""
            )
            count = f"{total - known} of {total} nodes{why}"
            sentences[name] = f'measure "{name}" is unknown for {count} (plugins: {", ".join(sorted(plugins))})'
    return sentences

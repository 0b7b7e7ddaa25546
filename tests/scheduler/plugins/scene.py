"""Sessions over worlds, to test single plugins with arguments."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
import numpy as np

from volcanopy.api.config_file import ConfigError
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.measures import Measured, of_load
from volcanopy.scheduler.model.plan import Evict, Plan
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy_testing.notation import NOW, all_policies, world

Loads = Mapping[str, tuple[float, float]]
"""Percent of cpu and of memory by node."""


def configured(plugins: Mapping[str, Mapping[str, Any]], actions: str = "allocate") -> SchedulerConfig:
    """One tier of plugins, each with its arguments."""
    entries = [{"name": name, "arguments": dict(arguments)} for name, arguments in plugins.items()]
    document = {"actions": actions, "tiers": [{"plugins": entries}]}
    return parse(msgspec.json.encode(document).decode(), all_policies())


def argument_error(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the error for invalid arguments; empty if they are valid."""
    try:
        configured({name: arguments})
    except ConfigError as error:
        return str(error).removeprefix(f"tiers[0].plugins[0].arguments ({name})").removeprefix(".").removeprefix(": ")
    return ""


def seen(
    text: str,
    loads: Loads | None = None,
    *,
    now: datetime = NOW,
    previous: datetime | None = None,
    age: timedelta = timedelta(0),
) -> Snapshot:
    """Return a snapshot with node load measured ``age`` ago; ``previous`` is the time of the previous cycle."""
    state = State()
    for obj in world(text):
        state.upsert(obj)
    if loads is not None:
        state.set_measures(Measured(of_load({name: (*load, now - age) for name, load in loads.items()})))
    if previous is not None:
        state.snapshot(previous, "before")
    return state.snapshot(now, "test")


class Scene:
    """A session with one or more plugins."""

    def __init__(self, snapshot: Snapshot, plugins: Mapping[str, Mapping[str, Any]]) -> None:
        self.snapshot = snapshot
        self.session = Session(snapshot, configured(plugins))

    def task(self, name: str) -> TaskView:
        return self.session.cluster.task(self.snapshot.task_rows[f"default/{name}"])

    def node(self, name: str) -> int:
        return self.snapshot.nodes.index[name]

    @property
    def nodes(self) -> NodesView:
        return self.session.cluster.nodes()

    def scores(self, task: str) -> dict[str, float]:
        """The score of each node, to six places."""
        result = self.session.hooks.score(TasksView([self.task(task)]), self.nodes)[0]
        return {name: round(float(score), 6) for name, score in zip(self.snapshot.nodes.names, result, strict=True)}

    def rejected(self, task: str) -> dict[str, str]:
        """Return the rejected nodes, each with the first reason."""
        answer: dict[str, str] = {}
        for refusal in self.session.hooks.reject(self.task(task), self.nodes):
            for row in np.flatnonzero(refusal.nodes).tolist():
                answer.setdefault(self.snapshot.nodes.names[row], refusal.reason)
        return answer

    def place(self, task: str, node: str) -> None:
        """Place a task, for the rest of the session."""
        statement = self.session.statement()
        statement.allocate(self.task(task).row, self.node(node))
        statement.keep()

    def evict(self, task: str) -> None:
        """Evict a task for the rest of the session."""
        statement = self.session.statement()
        statement.evict(self.task(task).row, "test")
        statement.keep()


def made(snapshot: Snapshot, plugins: Mapping[str, Mapping[str, Any]], actions: str = "allocate") -> Plan:
    """The plan for a snapshot."""
    return schedule(snapshot, configured(plugins, actions))


def evicted(snapshot: Snapshot, plugins: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the names of the pods that shuffle evicts."""
    return [effect.pod.removeprefix("default/") for effect in made(snapshot, plugins, "shuffle").of(Evict)]

"""telemetry: rules about any measure of nodes.

The idea is that of Telemetry Aware Scheduling: a pod names a policy, and the policy decides on which nodes the pod does not run
(``dontschedule``) and which nodes are better (``scheduleonmetric``).
"""

from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Floats, Mask
from volcanopy.scheduler.policy.plugin import Arguments, NodeRejection, Plugin
from volcanopy.scheduler.policy.roles import Nodes

LABEL = "telemetry-policy"

Statistic = Literal["mean", "deviation", "peak", "prediction"]


class MetricRule(Arguments):
    """A statistic of a measure compared with a number."""

    measure: str
    operator: Literal["LessThan", "GreaterThan", "Equals"]
    target: float
    statistic: Statistic = "mean"


class Preference(Arguments):
    """Which nodes are better: those with the smaller values of a measure, or with the greater ones."""

    measure: str
    operator: Literal["LessThan", "GreaterThan"]
    statistic: Statistic = "mean"


class Policy(Arguments):
    """The rules of pods with this policy."""

    dontschedule: tuple[MetricRule, ...] = ()
    """Nodes where one of these is true take none of the pods."""
    scheduleonmetric: Preference | None = None
    unknown: Literal["allow", "reject"] = "allow"
    """Whether nodes on which a measure of dontschedule is unknown take the pods."""


class TelemetryArguments(Arguments):
    """The policies, and the weight of preferences."""

    policies: dict[str, Policy]
    """By name: `dontschedule`, a list of rules with `measure`, `operator` (`LessThan`, `GreaterThan`, `Equals`), `target` and
    `statistic`; `scheduleonmetric`, with `measure`, `operator` and `statistic`; and `unknown`, `allow` or `reject`."""
    default: str = ""
    """The policy of pods without the label; none if empty."""
    weight: int = Field(1, ge=0)
    """How much preferences count."""

    @model_validator(mode="after")
    def _default_exists(self) -> "TelemetryArguments":
        if self.default and self.default not in self.policies:
            raise ValueError(f"default names the policy {self.default!r}, which is not among policies")
        return self

    @property
    def measures_read(self) -> tuple[str, ...]:
        """Those of all policies."""
        rules = [rule.measure for policy in self.policies.values() for rule in policy.dontschedule]
        likes = [policy.scheduleonmetric.measure for policy in self.policies.values() if policy.scheduleonmetric]
        return tuple(sorted({*rules, *likes}))


class Telemetry(Nodes, Plugin[TelemetryArguments]):
    """Rules about any measure: nodes that take no pods of a policy, and nodes that are better for them.

    A pod names its policy in the label ``telemetry-policy``; a name that is not configured has no rules. Nodes on which a measure
    of ``scheduleonmetric`` is unknown get the score 0; for ``dontschedule`` the policy decides whether they take the pods.
    """

    name: ClassVar[str] = "telemetry"
    arguments: ClassVar[type[Arguments]] = TelemetryArguments

    def open(self) -> None:
        """Read the name of a pod's policy."""
        self._policy = self.task_value(lambda task: task.pod.metadata.labels.get(LABEL, self.args.default))

    def reject(self, task: TaskView, nodes: NodesView) -> list[NodeRejection]:
        """The nodes of which a rule of the pod's policy is true."""
        rejections = self._rejected.get(self._policy(task), [])
        return [NodeRejection(reason, mask[nodes.rows], final=True) for reason, mask in rejections]

    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """From 0 for the worst known value in the cluster to 100 for the best."""
        nothing = np.zeros(len(nodes))
        return tasks.each(
            lambda task: self._scores[key][nodes.rows] if (key := self._policy(task)) in self._scores else nothing
        )

    @cached_property
    def _rejected(self) -> dict[str, list[tuple[str, Mask]]]:
        result: dict[str, list[tuple[str, Mask]]] = {}
        for name, policy in self.args.policies.items():
            for rule in policy.dontschedule:
                values = self._values(rule.measure, rule.statistic)
                compared = {"LessThan": values < rule.target, "GreaterThan": values > rule.target}
                hit = compared.get(rule.operator, values == rule.target)
                rule_text = f"{rule.measure} {rule.operator} {rule.target:g}"
                result.setdefault(name, []).append((f"node(s) violated telemetry policy {name}: {rule_text}", hit))
                if policy.unknown == "reject":
                    result[name].append((f"node(s) had no current value of measure {rule.measure}", np.isnan(values)))
        return result

    @cached_property
    def _scores(self) -> dict[str, Floats]:
        return {
            name: self._score(policy.scheduleonmetric)
            for name, policy in self.args.policies.items()
            if policy.scheduleonmetric is not None
        }

    def _score(self, like: Preference) -> Floats:
        values = self._values(like.measure, like.statistic)
        measured = values[~np.isnan(values)]
        if not len(measured) or measured.min() == measured.max():
            return np.where(np.isnan(values), 0.0, 100.0 * self.args.weight)
        part = (values - measured.min()) / (measured.max() - measured.min())
        better = 1.0 - part if like.operator == "LessThan" else part
        score: Floats = np.nan_to_num(100.0 * self.args.weight * better)
        return score

    def _values(self, measure: str, statistic: Statistic) -> Floats:
        series = self.cluster.snapshot.measure(measure)
        values: Floats = getattr(series, statistic)
        return values

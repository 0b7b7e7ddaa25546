"""A plugin that violates the contract is noticed, and the error names the plugin and the hook."""

import importlib.util
import itertools
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.nightly import nightly
from tests.scheduler.plan_corpus import configurations, corpus_worlds
from volcanopy import plugin as public
from volcanopy.plugin import (
    Arguments,
    CardSharing,
    Gate,
    NodeRejection,
    Nodes,
    Order,
    Plugin,
    PluginError,
    Registry,
    TasksView,
    Victims,
    Vote,
    parse,
    schedule,
)
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.policy.hook_table import HOOKS, declaration
from volcanopy_testing import check
from volcanopy_testing.notation import all_policies, snapshot

WORLD = """
    node n1 cpu=8
    node n2 cpu=8
    queue q1
    queue q2
    job old: 3 x cpu=1 on=n1
    job new: 1 x cpu=1
    job two queue=q2: 9 x cpu=1
    job late queue=q2 phase=Pending minres.cpu=9: 9 x cpu=1
"""
STEP = 23
"""The distance of the worlds of two policies."""


def plugin(bases: tuple[type, ...] = (Plugin,), /, **members: Any) -> type[Plugin[Any]]:
    """Return a class of plugins with these members."""
    return type("Wrong", bases, {"name": "wrong", **members})


def error(**members: Any) -> str:
    """Return the error of a cycle with such a plugin, which passes registration."""
    kind = plugin((Plugin, Gate, Nodes, Order, Victims), **members)
    registry = all_policies().with_plugins(kind)
    document = 'actions: "enqueue, allocate, preempt"\ntiers: [{plugins: [{name: wrong}, {name: gang}, {name: predicates}, {name: nodeorder}]}]'
    with pytest.raises(PluginError) as raised:
        schedule(snapshot(WORLD), parse(document, registry), registry)
    return str(raised.value)


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"scor": lambda self, tasks, nodes: 0}, 'has the unknown hook "scor"; did you mean "score"?'),
        ({"compute": lambda self: 0}, 'has the unknown hook "compute": name a method that is no hook "_compute"'),
        ({"argument": Arguments}, 'has the unknown attribute "argument"; did you mean "arguments"?'),
        ({"allows": lambda self, *_: None}, 'has the hook "allows" of the role Victims: inherit from Victims too'),
        ({"reject": 5}, 'has the hook "reject", which is 5: it must be a method'),
        (
            {"score": lambda self, tasks: 0},
            'has the hook "score", which must accept the arguments (tasks, nodes) by position',
        ),
        (
            {"couples_nodes": lambda self: 0},
            'has the hook "couples_nodes", which must accept the arguments (task) by position',
        ),
        (
            {"arguments": dict},
            "declares <class 'dict'> as its arguments: declare a subclass of volcanopy.plugin.Arguments",
        ),
        ({"name": None}, "has no name: set the class attribute name to the name in the configuration file"),
    ],
)
def test_a_class_that_violates_the_contract_is_rejected_when_it_is_registered(
    members: dict[str, Any], text: str
) -> None:
    with pytest.raises(PluginError) as raised:
        all_policies().with_plugins(plugin((Plugin, Nodes), **members))
    assert str(raised.value).endswith(text)


def test_coroutines_and_generators_are_no_hooks() -> None:
    async def jobs(self: Any, jobs: Any) -> Any:
        return jobs

    def evicts(self: Any, running: Any) -> Any:
        yield from running

    for method in (jobs, evicts):
        with pytest.raises(
            PluginError, match=f'"{method.__name__}", which must return its result: use neither async nor yield'
        ):
            all_policies().with_plugins(plugin((Plugin, Order, Victims), **{method.__name__: method}))


def returns(value: Any) -> Callable[..., Any]:
    return lambda self, *_: value() if callable(value) else value


@pytest.mark.parametrize(
    ("hook", "method", "text"),
    [
        (
            "score",
            lambda self, _, nodes: np.full(len(nodes), np.nan),
            "returned nan at 0, which cannot be compared",
        ),
        (
            "score",
            lambda self, _, nodes: np.full(len(nodes), np.inf),
            "returned inf at 0, which cannot be compared",
        ),
        (
            "score",
            returns(np.zeros(3)),
            "returned the shape (3,) for 1 tasks and 2 nodes, which must broadcast to (1, 2)",
        ),
        ("score", returns(None), "returned None, not an array of numbers"),
        ("reject", returns(None), "returned None, not rejections"),
        ("reject", lambda self, *_: [NodeRejection("r", True)], "returned a mask with True for 2 nodes"),  # type: ignore[arg-type]
        (
            "reject",
            lambda self, *_: [NodeRejection("r", np.ones(1, dtype=np.bool_))],
            "returned a mask with the shape (1,) and the type bool for 2 nodes, which must be (2,) and bool",
        ),
        ("jobs", lambda self, jobs: np.full(len(jobs), np.nan), "returned nan at 0, which cannot be compared"),
        ("jobs", lambda self, jobs: jobs[:1], "returned the shape (1,) for 3 rows, which must be (3,)"),
        ("queue", returns(float("nan")), "returned nan, not a number, a text or a tuple of these without NaN"),
        ("queue", returns(None), "returned None, not a number, a text or a tuple of these without NaN"),
        ("verdict", returns(True), "returned True, not Vote"),
        ("queue_verdict", returns(True), "returned True, not Rejection or None"),
        (
            "score",
            lambda self, tasks, nodes: tasks.each(lambda task: task.row),
            "failed: AttributeError: answers about nodes are",
        ),
        ("score", lambda self, *_: 1 / 0, "failed: ZeroDivisionError: division by zero"),
    ],
)
def test_an_invalid_result_names_the_plugin_and_the_hook(hook: str, method: Callable[..., Any], text: str) -> None:
    assert error(**{hook: method}).startswith(f"plugin 'wrong': hook '{hook}' {text}")


def faults(**members: Any) -> str:
    return "\n".join(check.faults(plugin((Plugin, Gate, Nodes, Order, Victims), **members)))


def by_used(self: Any, tasks: TasksView, nodes: Any) -> Any:
    return nodes.used["cpu"] * 1.0


def by_hidden_columns(self: Any, tasks: TasksView, nodes: Any) -> Any:
    return nodes._ledger.used[0][nodes.rows] * 1.0


def by_all_nodes(self: Any, tasks: TasksView, nodes: Any) -> Any:
    return (nodes.rows + self.cluster.ledger.used[0].sum() // 1000) % 3 * 1.0


@pytest.mark.parametrize("score", [by_hidden_columns, by_all_nodes])
def test_the_kit_reports_results_that_change_with_what_is_not_recorded(score: Callable[..., Any]) -> None:
    text = faults(score=score)
    assert "by what was read, but placing " in text
    assert text.partition("\n")[0].endswith("read the views alone, or let couples_nodes return True")


def test_the_kit_accepts_results_that_change_with_what_is_recorded_or_declared() -> None:
    assert not faults(score=by_used)
    assert not faults(score=by_all_nodes, couples_nodes=lambda self, task: True)


def by_all_jobs(self: Any, jobs: Any) -> Any:
    """Fewer pods with a node in the queue of the job first."""
    allocated = self.cluster.ledger.queue_allocated.sum(axis=0)
    return allocated[self.cluster.snapshot.jobs.queue[jobs]]


def by_the_first(self: Any, jobs: Any) -> Any:
    return jobs - jobs[:1]


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (by_all_jobs, " changes the key that 'jobs' returns for job "),
        (by_the_first, ": 'jobs' returns another key for job default/new if it is called for it alone"),
    ],
)
def test_the_kit_reports_keys_of_jobs_that_depend_on_other_jobs(keys: Any, text: str) -> None:
    reported = "\n".join(check.faults(plugin((Plugin, Order), jobs=keys), states=[WORLD]))
    assert text in reported
    assert "a key depends on its own job; compute in open what it needs of others" in reported


def test_the_kit_accepts_keys_of_what_is_allocated_to_a_job() -> None:
    assert not check.faults(
        plugin((Plugin, Order), jobs=lambda self, jobs: self.cluster.ledger.job_allocated[:, jobs].sum(axis=0)),
        states=[WORLD],
    )


def test_the_kit_reports_plans_that_depend_on_the_past() -> None:
    calls = itertools.count()

    def by_calls(self: Any, tasks: TasksView, nodes: Any) -> Any:
        return (nodes.rows * 7 + next(calls)) % 11 * 100.0

    state = "\n".join([*(f"node n{number} cpu=4" for number in range(6)), "job a: 5 x cpu=1"])
    texts = check.faults(plugin((Plugin, Nodes), score=by_calls), states=[state])
    assert "leads to another plan for the same cluster state" in "\n".join(texts)


def test_the_kit_reports_a_result_of_another_type() -> None:
    assert "hook 'verdict' returned None, not Vote" in faults(verdict=returns(None))


@pytest.mark.parametrize("chosen", [lambda preemptor, candidates: [preemptor], lambda preemptor, candidates: [3]])
def test_the_kit_reports_victims_that_are_no_candidates(chosen: Callable[..., Any]) -> None:
    text = faults(allows=lambda self, preemptor, candidates, purpose: chosen(preemptor, candidates))
    assert "hook 'allows' returned " in text


def test_the_kit_accepts_a_plugin_that_abstains() -> None:
    check.check(plugin((Plugin, Gate), verdict=lambda self, job, moment: Vote(0)))


@cache
def entries() -> Mapping[str, list[dict[str, Any]]]:
    """The entries of plugins in the configurations of the corpus."""
    fixed = [entry for _, tiers in configurations.FIXED.values() for tier in tiers for entry in tier]
    return {
        name: [entry for entry in fixed if entry["name"] == name] or [{"name": name}] for name in all_policies().plugins
    }


@pytest.mark.parametrize("offset", [0, pytest.param(1, marks=nightly), pytest.param(2, marks=nightly)])
@pytest.mark.parametrize("name", sorted(all_policies().plugins))
def test_every_policy_keeps_the_contract(name: str, offset: int) -> None:
    """Each with other worlds, and its entries in turn."""
    kind, first = all_policies().plugins[name], STEP * sorted(all_policies().plugins).index(name)
    for number, entry in enumerate(entries()[name]):
        worlds = [corpus_worlds.text(first + 3 * number + offset)]
        check.check(kind, entry.get("arguments"), states=worlds, hierarchy=entry.get("enableHierarchy", False))


def example(name: str) -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "plugin" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("module", "name", "arguments"),
    [
        ("volcanopy_cheapest", "Cheapest", {"cheapest.weight": 5}),
        ("volcanopy_maintenance", "Maintenance", {"maintenance.assumed-hours": 2}),
    ],
)
def test_the_examples_keep_the_contract(module: str, name: str, arguments: dict[str, float]) -> None:
    check.check(getattr(example(module), name), arguments)


def test_no_pod_starts_on_a_node_whose_maintenance_begins_before_its_end() -> None:
    registry = all_policies().with_plugins(example("volcanopy_maintenance").Maintenance)
    tiers = "[{plugins: [{name: maintenance}, {name: gang}, {name: predicates}]}]"
    plan = schedule(
        snapshot(
            """
            node n1 cpu=9 note.example.com/maintenance=2030-01-02T06:00:00Z
            node n2 cpu=1
            job short: 1 x cpu=2 note.volcanopy.io/max-runtime=5h
            job long: 1 x cpu=2 note.volcanopy.io/max-runtime=7h
            job other: 1 x cpu=1
            """
        ),
        parse(f"actions: allocate\ntiers: {tiers}", registry),
    )
    assert [str(bind) for bind in plan.of(Bind)] == ["bind short-0 -> n1", "bind other-0 -> n2"]
    assert "1 Insufficient cpu, 1 node(s) had maintenance soon" in str(plan)


def test_every_hook_has_a_type_that_results_are_compared_with() -> None:
    for name in HOOKS:
        assert declaration(name).__annotations__["return"] is not None


def test_all_public_names_can_be_imported() -> None:
    assert all(getattr(public, name) is not None for name in public.__all__)
    assert issubclass(public.NoArguments, Arguments)
    assert Registry is public.Registry


def test_a_plugin_of_a_package_can_share_cards() -> None:
    def locks(_: Any, task: Any) -> tuple[str, ...]:
        return (task.key,)

    all_policies().with_plugins(plugin((Plugin, CardSharing), gpu_cards=lambda _: None, bind_locks=locks))
    with pytest.raises(PluginError, match=r'hook "gpu_cards", which must accept the arguments \(\)'):
        all_policies().with_plugins(plugin((Plugin, CardSharing), gpu_cards=locks, bind_locks=locks))

"""Which worker of pytest-xdist runs which tests.

A unit is what one worker runs: a file, except those of `TOGETHER`, several of which are one, of `SPLIT`, where each test is one,
and of `BY_CASE`, where the tests of a case are one.
The worker that has started a real control plane runs the units that use it before others; another starts one only when no
other units are left: each costs 6 s of processor time to start, and more for the kinds of the tests and while it runs.
"""

import re
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from xdist.scheduler.loadfile import LoadFileScheduling
from xdist.workermanage import WorkerController

TOGETHER = {
    "processes": (
        "tests/charts/test_rbac.py",
        "tests/e2e/test_crashes.py",
        "tests/e2e/test_ha.py",
        "tests/services/test_restart.py",
    ),
    "process nodes": (
        "tests/cli/test_backends.py",
        "tests/cli/test_functions.py",
        "tests/cli/test_notebook.py",
        "tests/cli/test_progress.py",
        "tests/cli/test_sbatch.py",
        "tests/cli/test_sdk.py",
    ),
    "simulated nodes": (
        "tests/cli/explain/test_pod_groups.py",
        "tests/cli/queues/test_queue_commands.py",
        "tests/cli/test_history.py",
        "tests/cli/test_job_commands.py",
        "tests/cli/test_other_commands.py",
        "tests/cli/test_plugin.py",
        "tests/cli/test_top.py",
        "tests/cli/ui/test_browser.py",
        "tests/cli/ui/test_server.py",
    ),
}
"""Files whose tests are one unit, by its name.

Those of ``processes`` start many service processes with short leases: they run one after another, and do not slow each other down.
The others share a cluster of their worker (`tests/cli/conftest.py`), which takes 3 s of processor time to start.
"""
_TOGETHER = {path: name for name, paths in TOGETHER.items() for path in paths}

SPLIT = ("tests/docs/test_pages.py", "tests/services/test_admission_golden.py")
"""Files whose tests share nothing."""

BY_CASE = ("tests/scheduler/long_run/test_table.py",)
"""Files whose tests share what they measure of a case, which is their parameter."""

Worker = TypeVar("Worker", bound=Hashable)
Units = Mapping[str, Iterable[str]]
"""The ids of tests by the name of their unit."""

_REAL = re.compile(r"[\[-]real[\]-]")
"""The parameter of a test that runs on both API servers."""
_ON_CONTROL_PLANE = (
    "packages/apiserver/tests/contract/test_rejected_pods.py",
    "packages/apiserver/tests/contract/test_stories.py",
    "packages/apiserver/tests/contract/test_structural.py",
    "tests/charts/test_install.py",
    "tests/cli/ui/test_permissions.py",
    "tests/cli/ui/test_sign_in.py",
    "tests/contract/test_volcano_objects.py",
    "tests/contract/test_workloads.py",
    "tests/controlplane/test_chart_kinds.py",
    "tests/security/test_policies.py",
    "tests/security/test_queue_bypasses.py",
)
"""Files whose tests always use the shared control plane."""


def unit(nodeid: str) -> str:
    """Return the name of the unit of a test."""
    path = nodeid.partition("::")[0]
    if (name := _TOGETHER.get(path)) is not None:
        return name
    if path in BY_CASE:
        return path + nodeid[nodeid.find("[") :]
    return nodeid if path in SPLIT else path


def is_alone(nodeid: str, fixtures: Iterable[str]) -> bool:
    """Return whether a test of commands uses a cluster of its worker without being in a unit of such tests."""
    shared = nodeid.startswith("tests/cli/") and not {"cluster", "processes"}.isdisjoint(fixtures)
    return shared and unit(nodeid) not in TOGETHER


def uses_control_plane(nodeid: str) -> bool:
    """Return whether a test uses the shared control plane of its worker."""
    return nodeid.partition("::")[0] in _ON_CONTROL_PLANE or _REAL.search(nodeid) is not None


def next_unit(worker: Worker, queue: Units, assigned: Mapping[Worker, Units]) -> str | None:
    """Return the unit that a worker runs next; None if any will do.

    ``queue`` has the units that no worker has, ``assigned`` those that each worker has or had.
    """
    planes = {each for each, units in assigned.items() if any(map(_is_real, units.values()))}
    preferred = worker in planes or not planes
    return next((name for name, tests in queue.items() if _is_real(tests) == preferred), None)


def _is_real(tests: Iterable[str]) -> bool:
    return any(map(uses_control_plane, tests))


class Scheduling(LoadFileScheduling):  # type: ignore[misc]
    """Distributes units."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Move the unit that the worker runs next to the front of the queue, from which it is taken."""
        if (name := next_unit(node, self.workqueue, self.assigned_work)) is not None:
            self.workqueue.move_to_end(name, last=False)
        super()._assign_work_unit(node)

"""Order and report of the whole suite. `tests/distribution.py` says which worker runs what."""

import gc
import os
import signal
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from xdist.scheduler.loadfile import LoadFileScheduling

from tests.distribution import Scheduling, is_alone, unit, uses_control_plane

# Commands print local times.
os.environ["TZ"] = "UTC"
time.tzset()

LIMIT = 20.0
"""Seconds: a test that takes longer needs the marker `slow`, with the reason."""

# How long an example takes depends on how busy the machine is. The examples are the same in every run, and
# a quarter of those of the night; others, and all of them, are tried with --hypothesis-profile=explore, as `make nightly` does.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", settings.get_profile("explore"), derandomize=True, max_examples=25)
settings.load_profile("repeatable")

_durations: dict[str, float] = {}
_reasons: dict[str, str] = {}
"""Of tests that ran, by node id: with xdist, reports carry them from the workers."""


def pytest_configure(config: pytest.Config) -> None:
    """Collect no garbage while tests are collected; undo what a shell leaves behind that started them in the background.

    That is SIGINT ignored, in every child as well.
    """
    # Examples that are the same in each run have no constants of modules: which a worker has imported depends on its other tests.
    # Reading a thousand files takes each worker a second, the first one five.
    if config.getoption("--hypothesis-profile") != "explore":
        vars(providers)["_get_local_constants"] = Constants
    if config.getvalue("dist") == "no":  # not in the process that only distributes tests: it collects none
        gc.disable()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Replace the scheduling of `--dist loadfile`."""
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move what contains slow tests to the front, so that none is still running when everything else has ended.

    The order within a file stays.
    """
    slow = set()
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "real_control_plane" in fixtures and not uses_control_plane(item.nodeid):
            raise pytest.UsageError(f"{item.nodeid} uses the control plane: name its file in tests/distribution.py")
        if is_alone(item.nodeid, fixtures):
            raise pytest.UsageError(
                f"{item.nodeid} uses a cluster of its worker: name its file in tests/distribution.py"
            )
        if (marker := item.get_closest_marker("slow")) is not None:
            slow.add(unit(item.nodeid))
            item.user_properties.append(("slow", marker.args[0]))
    items.sort(key=lambda item: unit(item.nodeid) not in slow)


def pytest_collection_finish() -> None:
    """Leave out of garbage collections what was imported and collected: it stays until the end. Collect as the services do."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what a test takes in setup, call and teardown."""
    _durations[report.nodeid] = _durations.get(report.nodeid, 0.0) + report.duration
    _reasons.update((report.nodeid, str(reason)) for name, reason in report.user_properties if name == "slow")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the slowest ten tests, each with the reason if it has one, and why tests were skipped."""
    skipped = Counter(
        report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()) if isinstance(report.longrepr, tuple)
    )
    leaves_out = terminalreporter.config.option.markexpr == "not nightly"
    if skipped or leaves_out:
        terminalreporter.section("skipped tests")
    for reason, count in skipped.most_common():
        terminalreporter.write_line(f"{count:5} tests: {reason.removeprefix('Skipped: ')}")
    if leaves_out:
        terminalreporter.write_line("      more seeds and rows of the tests marked nightly: run `make nightly`")
    slowest = sorted(_durations.items(), key=lambda entry: -entry[1])[:10]
    if not slowest or slowest[0][1] < 1.0:
        return
    terminalreporter.section("slowest tests")
    for nodeid, seconds in slowest:
        reason = _reasons.get(nodeid, "no reason given: mark it slow or make it faster" if seconds > LIMIT else "")
        terminalreporter.write_line(f"{seconds:7.1f} s  {nodeid}{f'  ({reason})' if reason else ''}")

"""The counters of ended jobs and flows keep a limited number of series, as users choose the names in their labels."""

import pytest
from prometheus_client import CollectorRegistry, Counter

from volcanopy.services.controllers import reconcile_metrics
from volcanopy.services.controllers.reconcile_metrics import EndCounters


def test_series_of_names_that_were_counted_least_recently_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile_metrics, "MOST_NAMES", 3)
    registry = CollectorRegistry()
    phases = {phase: Counter(phase.lower(), phase, ["name"], registry=registry) for phase in ("Completed", "Failed")}
    counters = EndCounters(phases)
    for name in ("busy", "a", "busy", "b", "busy", "c", "busy", "d"):
        counters.count("Completed", name)
    counters.count("Failed", "busy")

    def series() -> set[str]:
        return {sample.labels["name"] for family in registry.collect() for sample in family.samples}

    assert series() == {"busy", "c", "d"}
    assert registry.get_sample_value("completed_total", {"name": "busy"}) == 4
    counters.forget("busy")
    assert series() == {"c", "d"}

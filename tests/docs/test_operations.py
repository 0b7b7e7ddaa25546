"""The operations page matches the metrics, leader election terms and limits of the code."""

import re

from tests.docs.pages import ROOT
from volcanopy.kube.leader.elector import LeaseDurations
from volcanopy.services.controllers.jobs import JobControllerSettings
from volcanopy.services.process.health import STALE_AFTER
from volcanopy.services.process.settings import SchedulerSettings

PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")


def test_every_metric_on_the_page_exists() -> None:
    known = set(re.findall(r"`(volcanopy_\w+)`", (ROOT / "docs" / "metrics.md").read_text("utf-8")))
    named = {name.removesuffix("_bucket") for name in re.findall(r"\bvolcanopy_[a-z_]+", PAGE)}
    assert len(named) > 10
    assert named - known == set()


def test_terms_and_limits_on_the_page_are_the_defaults() -> None:
    terms, settings = LeaseDurations(), SchedulerSettings()
    assert f"| `--lease-duration` | {terms.duration:g} s |" in PAGE
    assert f"| `--renew-deadline` | {terms.renew:g} s |" in PAGE
    assert f"| `--retry-period` | {terms.retry:g} s |" in PAGE
    assert f"{terms.duration + terms.retry:g} s at most by the terms" in PAGE
    assert f"stops {terms.duration - terms.renew:g} s before" in PAGE
    assert f"for {settings.stuck_after:g} s (`--stuck-after`)" in PAGE
    assert f"a watch has failed for {STALE_AFTER:g} s" in PAGE
    assert f"worked on for {JobControllerSettings().stuck_after:g} s" in PAGE
    assert f"finishes what it has decided ({settings.shutdown:g} s at most" in PAGE

"""What ginkgo reports of a suite: each spec, whether it passed, and the message of its failure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tests.volcano_e2e.exceptions import EXCEPTIONS, RACE

State = Literal["passed", "failed", "skipped"]
_WORDS = ("to contain substring", "to satisfy at least one of these matchers")
"""In the message of a spec that compares the words of a refusal."""


@dataclass(frozen=True)
class Spec:
    """One spec of a suite; the message is that of the failure or the skip."""

    name: str
    state: State
    message: str = ""
    seconds: float = 0.0

    @property
    def differs_in_words(self) -> bool:
        """Whether it failed at a comparison of words."""
        return self.state == "failed" and any(words in self.message for words in _WORDS)


def specs(report: Path) -> list[Spec]:
    """Return the specs of ginkgo's JSON report. Specs that were not selected are left out."""
    found = []
    for suite in json.loads(report.read_text()):
        for entry in suite["SpecReports"] or ():
            spec = _spec(entry)
            if spec is not None:
                found.append(spec)
    return found


def _spec(entry: Mapping[str, Any]) -> Spec | None:
    if entry["LeafNodeType"] != "It":
        return None
    failure = entry.get("Failure") or {}
    message = failure.get("Message", "")
    state = entry["State"]
    if state == "skipped" and not message:
        return None
    name = " ".join([*(entry["ContainerHierarchyTexts"] or ()), entry["LeafNodeText"]])
    known: State = "passed" if state == "passed" else "skipped" if state in {"skipped", "pending"} else "failed"
    return Spec(name, known, message, entry["RunTime"] / 1e9)


def with_repeated(found: Sequence[Spec], repeated: Iterable[Spec]) -> list[Spec]:
    """Return the specs with the later outcome of those that ran again."""
    later = {spec.name: spec for spec in repeated}
    return [later.get(spec.name, spec) for spec in found]


@dataclass(frozen=True)
class Result:
    """The specs of a suite; those in ``reworded`` passed in the variant that does not compare the words of a refusal."""

    suite: str
    specs: tuple[Spec, ...]
    reworded: frozenset[str] = frozenset()

    @property
    def passed(self) -> int:
        """Number of specs that passed, in either variant."""
        return sum(spec.state == "passed" or spec.name in self.reworded for spec in self.specs)

    @property
    def failed(self) -> list[Spec]:
        """The specs that failed."""
        return [spec for spec in self.specs if spec.state == "failed" and spec.name not in self.reworded]

    @property
    def skipped(self) -> list[Spec]:
        """The specs that did not run."""
        return [spec for spec in self.specs if spec.state == "skipped"]

    def reason(self, spec: Spec) -> str | None:
        """Return why a spec is known not to pass."""
        return next((reason for part, reason in EXCEPTIONS.get(self.suite, {}).items() if part in spec.name), None)

    @property
    def unexplained(self) -> list[Spec]:
        """The specs that failed for no known reason."""
        return [spec for spec in self.failed if self.reason(spec) is None]

    @property
    def worth_repeating(self) -> list[Spec]:
        """The failed specs that may pass when they run alone: for no known reason, or for a race."""
        return [spec for spec in self.failed if (self.reason(spec) or RACE).startswith(RACE)]

    def lines(self) -> list[str]:
        """Return the row of the table, and a line for each exception."""
        counts = f"{self.passed} passed ({len(self.reworded)} refused in other words)"
        head = f"{self.suite}: {counts}, {len(self.failed)} failed, {len(self.skipped)} skipped"
        rows = [head, *(f"  refused in other words: {name}" for name in sorted(self.reworded))]
        for spec in self.failed:
            reason = self.reason(spec) or f"NOT EXPLAINED: {' '.join(spec.message.split())[:300]}"
            rows.append(f"  failed: {spec.name}: {reason}")
        return [*rows, *(f"  skipped: {spec.name}: {' '.join(spec.message.split())[:120]}" for spec in self.skipped)]

"""``python -m hack.limitspage`` writes the table of limits and defaults into docs/limits-and-defaults.md, from the code that applies them."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hack import generated_section

PAGE = Path(__file__).parents[1] / "docs" / "limits-and-defaults.md"
_BEGIN = "<!-- limits: written by `make golden` -->\n"
_END = "<!-- end of limits -->\n"


def _number(value: Any) -> str:
    return f"{value:,}"


def _seconds(value: Any) -> str:
    return f"{value:g} s"


def _size(value: Any) -> str:
    return f"{value // 2**20} MiB" if value >= 2**20 else f"{value // 2**10} KiB"


def _range(value: Any) -> str:
    return " to ".join(f"{bound:g}" for bound in value) + " s"


@dataclass(frozen=True)
class Row:
    """One limit: where its constant is, how it is printed, and what happens beyond it."""

    subject: str
    constant: str
    text: Callable[[Any], str]
    effect: str

    def value(self) -> str:
        """Return the value that the code applies."""
        module, _, name = self.constant.rpartition(".")
        return self.text(getattr(importlib.import_module(f"volcanopy.{module}"), name))


ROWS = (
    Row("annotations of a job with those of a pod template", "admission.children.MAX_ANNOTATIONS", _size, "rejected; 16 KiB of it are reserved for volcanopy's own"),
    Row("resources in a list of amounts", "admission.children.MAX_RESOURCES", _number, "rejected"),
    Row("grace period of pods in queues whose users may not protect pods", "api.core.MAX_GRACE_SECONDS", _seconds, "rejected"),
    Row("values of an object outside its pod templates", "admission.request.MAX_VALUES", _number, "rejected"),
    Row("entries of one list or map", "admission.request.MAX_ENTRIES", _number, "rejected"),
    Row("depth of an object", "admission.request.MAX_DEPTH", _number, "rejected"),
    Row("problems in one answer of admission", "admission.response.MAX_PROBLEMS", _number, "the others are counted"),
    Row("body of a review", "services.admission.admission_service.LARGEST_BODY", _size, "rejected"),
    Row("lookup of a review in the API server", "services.admission.admission_service.LOOKUP_DEADLINE", _seconds, "the check is an error of the review"),
    Row("dry run of a pod", "services.admission.pod_dry_run.DEADLINE", _seconds, "the pod template is admitted unchecked"),
    Row("pods of a task without a node beyond the minimum of its job", "api.core.MOST_WAITING_PODS", _number, "others are created when these have nodes"),
    Row("writes of one step of a job", "services.controllers.steps.MOST_WRITES", _number, "the job continues after other jobs of the queue of work"),
    Row("writes of the first step of a job", "services.controllers.steps.FIRST_WRITES", _number, "the same"),
    Row("concurrent writes of the controller", "services.controllers.owned_objects.WRITES_AT_ONCE", _number, "further ones wait, round robin by namespace; a quarter for one object; fewer while the server is slow"),
    Row("bytes of a job", "services.controllers.effects.LARGE", _size, "a larger one waits for others of its size, while there are other jobs for four times as long; its minor statuses are written a second later for each 64 KiB"),
    Row("concurrent probes of a job flow", "services.controllers.flows.PROBES_AT_ONCE", _number, "further ones wait"),
    Row("all probes of a job flow", "services.controllers.flows.PROBES_TIMEOUT", _seconds, "those without a result have failed, and are repeated after 5 s"),
    Row("pauses after a failed step", "services.controllers.workqueue.LONGEST_PAUSE", _seconds, "the longest; they double from 0.05 s"),
    Row("period of audits of what users wrote", "services.controllers.user_kinds.AUDIT_PERIOD", _range, "an event that a watch lost is made up for"),
    Row("times that a part of a process is restarted within a minute", "services.process.supervisor.MOST_RESTARTS", _number, "the process ends, and its successor continues"),
    Row("dumps of the scheduler", "services.scheduler.dump.MOST_DUMPS", _number, "the oldest is deleted"),
    Row("estimates of starts", "services.scheduler.start_estimates.PERIOD", _seconds, "between two rounds; the first comes after 3 s"),
)  # fmt: skip


def table() -> str:
    """Return the limits as a table in Markdown."""
    rows = [f"| {row.subject} | {row.value()} | {row.effect} |" for row in ROWS]
    return "\n".join(["| limit | value | beyond it |", "|---|---|---|", *rows]) + "\n"


def written(text: str) -> str:
    """Return the text of the page with the table up to date."""
    return generated_section.replaced(text, _BEGIN, _END, table())


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")

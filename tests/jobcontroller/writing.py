"""The parts of docs/jobs.md that follow from the table of a job's life.

``python -m tests.jobcontroller.writing`` writes them anew; a test compares them with what is there.
"""

from collections.abc import Iterator
from pathlib import Path

from hack import generated_section
from volcanopy.api.batch import Phase
from volcanopy.api.lifecycle import Action
from volcanopy.jobcontroller.phases import TRANSITIONS, Stop

PAGE = Path(__file__).resolve().parents[2] / "docs" / "jobs.md"
LEADS_TO = {
    Phase.PENDING: (Phase.RUNNING, Phase.COMPLETED, Phase.FAILED),
    Phase.RUNNING: (Phase.PENDING, Phase.COMPLETED, Phase.FAILED),
    Phase.RESTARTING: (Phase.PENDING, Phase.FAILED),
    Phase.ABORTING: (Phase.ABORTED,),
    Phase.COMPLETING: (Phase.COMPLETED,),
    Phase.TERMINATING: (Phase.TERMINATED,),
}
"""Where a phase leads by itself, once what it waits for has come."""
BEGIN, END = "<!-- from the table of phases: begin -->", "<!-- end -->"


def diagram() -> str:
    """The state diagram: the effects of actions, and (dotted, "by itself") the automatic transitions."""
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> Pending", *sorted(_arrows()), "```", "", *_table()]
    return "\n".join(lines)


def _arrows() -> Iterator[str]:
    named: dict[tuple[Phase, Phase], list[str]] = {}
    for (phase, action), step in TRANSITIONS.items():
        if step.to is not None and step.to is not phase:
            named.setdefault((phase, step.to), []).append(str(action))
    for (phase, to), actions in named.items():
        together = [action for action in actions if not action.startswith("Restart")]
        together += ["Restart…"] if len(together) < len(actions) else []
        yield f"    {phase} --> {to}: {', '.join(together)}"
    for phase, targets in LEADS_TO.items():
        for to in targets:
            yield f"    {phase} --> {to}"


def _table() -> Iterator[str]:
    yield "| action | in phases | leads to | pods that it stops | costs a retry |"
    yield "|---|---|---|---|---|"
    for action in Action:
        phases = [phase for phase in Phase if TRANSITIONS[phase, action].to is not None]
        if not phases:
            continue
        (step,) = {TRANSITIONS[phase, action] for phase in phases}
        stops = "none" if step.stop is Stop.NONE else str(step.stop)
        retry = "yes" if step.costs_retry else "no"
        yield f"| `{action}` | {', '.join(phases)} | {step.to} | {stops} | {retry} |"


def page(text: str) -> str:
    """The page with its generated part as it should be."""
    return generated_section.replaced(text, BEGIN, END, f"\n{diagram()}\n")


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))

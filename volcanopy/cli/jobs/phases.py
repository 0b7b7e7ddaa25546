"""The phases of a job by the names that people type."""

import difflib

from volcanopy.cli.errors import CommandError

PHASES = (
    "Pending",
    "Running",
    "Restarting",
    "Aborting",
    "Aborted",
    "Completing",
    "Completed",
    "Terminating",
    "Terminated",
    "Failed",
)
"""As the API has them; that they are the same is tested, and not having to import the models saves time."""
FINISHED = frozenset({"Completed", "Terminated", "Failed"})
"""Phases that are never left."""
SUSPENDED = "Aborted"


def phase_named(text: str) -> str:
    """The phase of that name in any case; raises Stop for none."""
    found = next((one for one in PHASES if one.lower() == text.lower()), None)
    if found is None:
        near = difflib.get_close_matches(text.capitalize(), PHASES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(PHASES)}"
        raise CommandError(f"{text!r} is no phase of a job: {hint}", 2)
    return found

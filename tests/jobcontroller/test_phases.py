"""The transition table is complete and agrees with the specification."""

from tests.jobcontroller.writing import LEADS_TO
from volcanopy.api.batch import Phase
from volcanopy.api.lifecycle import Action
from volcanopy.jobcontroller.phases import FINISHED, LIVE, STOPPED, TRANSITIONS, Step, Stop


def test_every_pair_has_a_transition() -> None:
    assert set(TRANSITIONS) == {(phase, action) for phase in Phase for action in Action}


def test_finished_jobs_keep_their_phase() -> None:
    assert {TRANSITIONS[phase, action] for phase in FINISHED for action in Action} == {Step()}


def test_a_stopped_job_can_only_be_resumed() -> None:
    for phase in (Phase.ABORTING, Phase.ABORTED):
        does = {action: TRANSITIONS[phase, action].to for action in Action if TRANSITIONS[phase, action].to}
        assert does == {Action.RESUME_JOB: Phase.RESTARTING}


def test_only_restarts_count_as_retry_and_delete_finished_pods() -> None:
    for (_, action), step in TRANSITIONS.items():
        restart = action.startswith("Restart") and step.to is not None
        assert step.costs_retry == restart
        assert (step.stop in {Stop.ALL, Stop.TARGET}) == restart


def test_every_phase_but_the_final_ones_has_an_exit() -> None:
    assert set(LEADS_TO) == set(Phase) - STOPPED
    assert set(Phase) == LIVE | STOPPED | {Phase.ABORTING, Phase.COMPLETING, Phase.TERMINATING}

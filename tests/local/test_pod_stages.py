"""A simulated pod's life as a function of its start and the time."""

import math
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from volcanopy_local.simulated import pod_status
from volcanopy_local.simulated.pod_stages import AnnotationError, Moment, RestartPolicy, Script, Stages, at, cut, script

BORN = 1_900_000_000.0
ORDER = {"Pending": 0, "Running": 1, "Succeeded": 2, "Failed": 2}


def made(
    restart: RestartPolicy = "Never",
    init: tuple[tuple[str, str, str], ...] = (),
    containers: tuple[tuple[str, str], ...] = (("main", "image"),),
    deadline: int | None = None,
    stages: Stages | None = None,
    **said: str,
) -> Script:
    """A script; ``duration="5s"`` sets the annotation of that name, ``duration__side`` that of one container."""
    notes = {"sim.volcanopy.io/" + key.replace("__", ".").replace("_", "-"): text for key, text in said.items()}
    return script(notes, containers, init, restart, "uid", stages or Stages(), deadline)


def phase(life: Script, seconds: float) -> str:
    return at(life, BORN, BORN + seconds).phase


def test_a_pod_is_pending_then_running_then_succeeded() -> None:
    life = made(start_delay="1s", duration="5s")
    assert [phase(life, seconds) for seconds in (0.0, 0.9, 1.0, 5.9, 6.0, 1e9)] == [
        "Pending",
        "Pending",
        "Running",
        "Running",
        "Succeeded",
        "Succeeded",
    ]


def test_an_exit_code_other_than_zero_fails_the_pod() -> None:
    result = at(made(duration="2s", exit_code="3"), BORN, BORN + 10)
    assert (result.phase, result.main[0].last and result.main[0].last.code) == ("Failed", 3)


def test_a_pod_with_restart_policy_always_runs_forever_by_default() -> None:
    assert at(made("Always"), BORN, BORN + 1e8).until == math.inf
    assert at(made("Never"), BORN, BORN + 1).until < BORN + 6


def test_a_failed_container_is_restarted_with_growing_pauses() -> None:
    """Runs of a second each: at once after the first failure, then after 2, 4 and 5 seconds, the limit."""
    life = made(
        "OnFailure", duration="1s", exit_code="1", back_off="2s", start_delay="0s", stages=Stages(back_off_limit=5)
    )
    begins = [0.0, 1.0, 4.0, 9.0, 15.0, 21.0]
    for run, begin in enumerate(begins):
        span = at(life, BORN, BORN + begin + 0.5).main[0]
        assert (span.state, span.restarts) == ("running", run)
    waiting = at(life, BORN, BORN + 3.0)
    assert (waiting.phase, waiting.main[0].reason, waiting.main[0].restarts) == ("Running", "CrashLoopBackOff", 1)


def test_each_run_uses_the_next_exit_code() -> None:
    life = made("OnFailure", duration="1s", exit_code="1,1,0", back_off="1s", start_delay="0s")
    result = at(life, BORN, BORN + 60)
    assert (result.phase, result.main[0].restarts) == ("Succeeded", 2)


def test_init_containers_run_one_after_the_other_before_the_others() -> None:
    life = made(
        init=(("first", "i", ""), ("second", "i", "")),
        duration="5s",
        duration__first="2s",
        duration__second="3s",
        start_delay="0s",
    )
    states = [[span.state for span in at(life, BORN, BORN + seconds).init] for seconds in (1, 3, 6)]
    assert states == [["running", "waiting"], ["terminated", "running"], ["terminated", "terminated"]]
    assert [phase(life, seconds) for seconds in (4.9, 5.0, 10.0)] == ["Pending", "Running", "Succeeded"]


def test_a_failed_init_container_fails_a_pod_that_is_never_restarted() -> None:
    life = made(init=(("setup", "i", ""),), exit_code__setup="1", start_delay="0s")
    result = at(life, BORN, BORN + 10)
    assert (result.phase, result.main[0].state) == ("Failed", "waiting")


def test_a_sidecar_delays_neither_start_nor_end() -> None:
    life = made(init=(("proxy", "i", "Always"),), duration="2s", start_delay="0s")
    assert at(life, BORN, BORN + 1).init[0].state == "running"
    result = at(life, BORN, BORN + 3)
    assert (result.phase, result.init[0].state) == ("Succeeded", "terminated")


def test_a_pod_lives_as_long_as_its_longest_container() -> None:
    two = (("short", "i"), ("long", "i"))
    life = made(containers=two, duration="2s", duration__long="8s", exit_code__short="1", start_delay="0s")
    assert [phase(life, seconds) for seconds in (5.0, 8.0)] == ["Running", "Failed"]


def test_a_deadline_ends_a_pod_with_its_reason() -> None:
    life = made(duration="forever", deadline=7)
    assert at(life, BORN, BORN + 1).until == BORN + 7
    result = at(life, BORN, BORN + 8)
    assert (result.phase, result.reason) == ("Failed", "DeadlineExceeded")


def test_a_deadline_after_the_end_changes_nothing() -> None:
    life = made(duration="2s", deadline=60)
    assert at(life, BORN, BORN + 100) == replace(at(replace(life, deadline=math.inf), BORN, BORN + 100))


@pytest.mark.parametrize(
    ("key", "text", "meant"),
    [
        ("duration", "5", "'5' is not a duration such as 5s, 1h30m or forever"),
        ("duration", "ever", "'ever' is not a duration"),
        ("start-delay", "-1s", "'-1s' is not a duration"),
        ("exit-code", "one", "'one' is not an exit code from 0 to 255"),
        ("exit-code", "256", "'256' is not an exit code"),
        ("exit-code", "", "'' is not an exit code"),
    ],
)
def test_an_invalid_annotation_is_named_with_the_fix(key: str, text: str, meant: str) -> None:
    with pytest.raises(AnnotationError) as caught:
        script({"sim.volcanopy.io/" + key: text}, [("main", "image")], [], "Never", "uid", Stages())
    assert str(caught.value).startswith(f"annotation sim.volcanopy.io/{key}: {meant}")


lives = st.builds(
    made,
    restart=st.sampled_from(["Always", "OnFailure", "Never"]),
    init=st.sampled_from([(), (("a", "i", ""),), (("a", "i", "Always"), ("b", "i", ""))]),
    containers=st.sampled_from([(("m", "i"),), (("m", "i"), ("n", "i"))]),
    deadline=st.sampled_from([None, 3, 30]),
    duration=st.sampled_from(["0s", "500ms", "4s", "20m", "forever"]),
    duration__a=st.sampled_from(["0s", "1s"]),
    duration__n=st.sampled_from(["2s", "7s"]),
    exit_code=st.sampled_from(["0", "1", "1,0"]),
    exit_code__a=st.sampled_from(["0", "1,0", "1"]),
    start_delay=st.sampled_from(["0s", "100ms", "5s"]),
    back_off=st.sampled_from(["100ms", "3s"]),
)


@given(life=lives, when=st.floats(0, 40), gap=st.floats(0, 40))
@example(life=made(duration="0s", start_delay="0s"), when=0.0, gap=0.0)
def test_the_phases_of_a_pod_only_advance(life: Script, when: float, gap: float) -> None:
    early, late = at(life, BORN, BORN + when), at(life, BORN, BORN + when + gap)
    assert ORDER[early.phase] <= ORDER[late.phase]
    for before, after in zip((*early.init, *early.main), (*late.init, *late.main), strict=True):
        assert before.restarts <= after.restarts
    if early.over:
        assert early == late


@given(life=lives, when=st.floats(0, 40))
def test_a_pod_changes_exactly_at_its_next_change(life: Script, when: float) -> None:
    now = BORN + when
    result = at(life, BORN, now)
    assert result.until > now
    if result.until < math.inf:
        just_before = at(life, BORN, math.nextafter(result.until, 0))
        assert pod_status.to_show(just_before) == pod_status.to_show(result)
        assert _told(at(life, BORN, result.until)) != _told(result)


@given(life=lives, when=st.floats(0, 40))
def test_a_stopped_pod_has_no_running_container(life: Script, when: float) -> None:
    result = cut(at(life, BORN, BORN + when), BORN + when, 143)
    assert result.over
    assert not any(span.state == "running" for span in (*result.init, *result.main))


def _told(moment: Moment) -> object:
    """All that distinguishes moments: what is shown, and why something waits."""
    return pod_status.to_show(moment), [span.reason for span in (*moment.init, *moment.main)], moment.reason

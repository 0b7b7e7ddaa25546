"""State of a simulated pod as a function of time, without any state of its own.

Annotations of the pod specify how long its containers run and how they end; :class:`Stages` has the defaults. From
these and the start time, :func:`at` returns the state at any moment and the time of the next change.

====================================  ==================================================================================
``sim.volcanopy.io/start-delay``      Time to create its containers: ``500ms``.
``sim.volcanopy.io/duration``         Run time of its containers: ``5s``, ``1h30m``, or ``forever``.
``sim.volcanopy.io/exit-code``        Exit code: ``"1"``, or a list for consecutive runs: ``"1,1,0"``.
``sim.volcanopy.io/stop-delay``       Time to stop when the pod is deleted.
``sim.volcanopy.io/back-off``         Delay before the second restart of a container; it doubles each time.
====================================  ==================================================================================

``duration`` and ``exit-code`` can be set for a single container: ``sim.volcanopy.io/duration.sidecar``. Init containers
have only this form; by default they succeed after a tenth of a second.
"""

import math
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal, NamedTuple

from volcanopy.api.model import parse_duration

PREFIX = "sim.volcanopy.io/"
DURATION, EXIT_CODE = PREFIX + "duration", PREFIX + "exit-code"
START_DELAY, STOP_DELAY, BACK_OFF = PREFIX + "start-delay", PREFIX + "stop-delay", PREFIX + "back-off"

FOREVER = math.inf
SHORTEST = 0.01
"""Minimum duration of a run in seconds, so that time passes between restarts."""
STABLE = 600.0
"""Duration of a run in seconds that resets the restart back-off."""
KILLED, TERMINATED = 137, 143

RestartPolicy = Literal["Always", "OnFailure", "Never"]


class AnnotationError(ValueError):
    """An annotation is not valid."""


@dataclass(frozen=True)
class Stages:
    """Defaults for pods without annotations, in seconds.

    Containers with restartPolicy Always run for ever; others for a time between the two ``durations``, depending on
    the pod's uid.
    """

    start_delay: float = 0.1
    init_duration: float = 0.1
    durations: tuple[float, float] = (2.0, 5.0)
    stop_delay: float = 0.1
    back_off: float = 10.0
    back_off_limit: float = 300.0


class Container(NamedTuple):
    """Script of a container: duration and exit codes of its runs, and its restart policy."""

    name: str
    image: str
    duration: float
    codes: tuple[int, ...]
    restart: RestartPolicy
    back_off: float
    back_off_limit: float

    def code(self, run: int) -> int:
        """Return the exit code of a run; the last code of the list applies to all further runs."""
        return self.codes[min(run, len(self.codes) - 1)]

    @property
    def sidecar(self) -> bool:
        """Whether an init container is a sidecar, which runs beside the others."""
        return self.restart == "Always"


@dataclass(frozen=True)
class Script:
    """Script of a pod that is not deleted; ``deadline`` counts from its start."""

    start_delay: float
    stop_delay: float
    init: tuple[Container, ...]
    main: tuple[Container, ...]
    deadline: float = FOREVER


class Run(NamedTuple):
    """A completed run of a container."""

    began: float
    ended: float
    code: int
    reason: str


class Span(NamedTuple):
    """State of a container at a moment, with its restarts, its start and its last completed run."""

    state: Literal["waiting", "running", "terminated"]
    restarts: int = 0
    since: float = 0.0
    last: Run | None = None
    reason: str = ""


@dataclass(frozen=True)
class Moment:
    """State of a pod at a moment, in seconds of the epoch; ``until`` is the time of its next change."""

    phase: Literal["Pending", "Running", "Succeeded", "Failed"]
    init: tuple[Span, ...]
    main: tuple[Span, ...]
    until: float
    initialized: float | None = None
    reason: str = ""
    message: str = ""

    @property
    def over(self) -> bool:
        """Whether the pod has ended."""
        return self.phase in {"Succeeded", "Failed"}


_CREATING = Span("waiting", reason="ContainerCreating")
_INITIALIZING = Span("waiting", reason="PodInitializing")


def script(
    annotations: Mapping[str, str],
    containers: Iterable[tuple[str, str]],
    init_containers: Iterable[tuple[str, str, str]],
    restart: RestartPolicy,
    uid: str,
    stages: Stages,
    deadline: int | None = None,
) -> Script:
    """Return the script of a pod.

    ``containers`` are pairs of name and image, ``init_containers`` have a restart policy as well. Raises AnnotationError.
    """
    low, high = stages.durations
    usual = FOREVER if restart == "Always" else low + (high - low) * (zlib.crc32(uid.encode()) % 1000) / 999
    duration = _seconds(annotations, DURATION, usual)
    codes = _codes(annotations, EXIT_CODE, (0,))
    back_off = _seconds(annotations, BACK_OFF, stages.back_off)

    def container(name: str, image: str, duration: float, codes: tuple[int, ...], restart: RestartPolicy) -> Container:
        duration = _seconds(annotations, f"{DURATION}.{name}", duration)
        codes = _codes(annotations, f"{EXIT_CODE}.{name}", codes)
        return Container(name, image, max(duration, SHORTEST), codes, restart, back_off, stages.back_off_limit)

    before: RestartPolicy = "Never" if restart == "Never" else "OnFailure"
    return Script(
        start_delay=_seconds(annotations, START_DELAY, stages.start_delay),
        stop_delay=_seconds(annotations, STOP_DELAY, stages.stop_delay),
        init=tuple(
            container(name, image, FOREVER, (0,), "Always")
            if policy == "Always"
            else container(name, image, stages.init_duration, (0,), before)
            for name, image, policy in init_containers
        ),
        main=tuple(container(name, image, duration, codes, restart) for name, image in containers),
        deadline=FOREVER if deadline is None else float(deadline),
    )


def at(script: Script, began: float, now: float) -> Moment:
    """Return the state of a pod that started at ``began``."""
    limit = began + script.deadline
    if now < limit:
        moment = _without_deadline(script, began, now)
        return moment if moment.over else replace(moment, until=min(moment.until, limit))
    moment = _without_deadline(script, began, limit)
    if moment.over:
        return moment
    message = "Pod was active on the node longer than the specified deadline"
    return replace(cut(moment, limit, TERMINATED), phase="Failed", reason="DeadlineExceeded", message=message)


def cut(moment: Moment, now: float, code: int) -> Moment:
    """Return the state after the running containers are stopped with this exit code."""

    def end(span: Span) -> Span:
        if span.state != "running":
            return span
        return Span("terminated", span.restarts, now, Run(span.since, now, code, "Error"))

    main = tuple(map(end, moment.main))
    well = all(span.state == "terminated" and span.last is not None and span.last.code == 0 for span in main)
    return Moment(
        "Succeeded" if well else "Failed", tuple(map(end, moment.init)), main, FOREVER, initialized=moment.initialized
    )


def _without_deadline(script: Script, began: float, now: float) -> Moment:
    """Return the state of a pod without deadline."""
    ready = began + script.start_delay
    if now < ready:
        waiting = _INITIALIZING if script.init else _CREATING
        return Moment("Pending", tuple(_CREATING for _ in script.init), tuple(waiting for _ in script.main), ready)
    init: list[Span] = []
    start, until = ready, FOREVER
    for number, container in enumerate(script.init):
        span, changes = _container(container, start, now)
        init.append(span)
        if container.sidecar:
            until = min(until, changes)
            continue
        if span.state != "terminated" or span.last is None or span.last.code != 0:
            phase: Literal["Failed", "Pending"] = "Failed" if span.state == "terminated" else "Pending"
            rest = tuple(_INITIALIZING for _ in script.init[number + 1 :])
            main = tuple(_INITIALIZING for _ in script.main)
            moment = Moment(phase, (*init, *rest), main, min(until, changes))
            if not moment.over:
                return moment
            # Sidecars have the state of that moment.
            return _without_deadline(script, began, span.since) if span.since < now else cut(moment, now, TERMINATED)
        start = span.since
    spans = [_container(container, start, now) for container in script.main]
    main = tuple(span for span, _ in spans)
    until = min([until, *(changes for _, changes in spans)])
    if any(span.state != "terminated" for span in main):
        return Moment("Running", tuple(init), main, until, initialized=start)
    ended = max(span.since for span in main)
    if ended < now:
        return _without_deadline(script, began, ended)
    # Sidecars are stopped at the end; their exit codes do not count.
    beside = tuple(_stopped(span, ended) if span.state != "terminated" else span for span in init)
    well = all(span.last is not None and span.last.code == 0 for span in main)
    return Moment("Succeeded" if well else "Failed", beside, main, FOREVER, initialized=start)


def _stopped(span: Span, ended: float) -> Span:
    return Span("terminated", span.restarts, ended, Run(span.since or ended, ended, 0, "Completed"))


def _container(container: Container, began: float, now: float) -> tuple[Span, float]:
    """Return the state of a container whose first run begins at ``began``, and the time of its next change."""
    run, start, pause = 0, began, 0.0
    last: Run | None = None
    while now >= start:
        end = start + container.duration
        if now < end:
            return Span("running", run, start, last), end
        code = container.code(run)
        last = Run(start, end, code, "Completed" if code == 0 else "Error")
        if container.restart == "Never" or (container.restart == "OnFailure" and code == 0):
            return Span("terminated", run, end, last), FOREVER
        if container.duration >= STABLE:
            pause = 0.0
        start = end + pause
        pause = min(pause * 2, container.back_off_limit) if pause else container.back_off
        run += 1
    if run == 0:
        return _CREATING, start
    return Span("waiting", run - 1, start, last, "CrashLoopBackOff"), start


def _seconds(annotations: Mapping[str, str], key: str, absent: float) -> float:
    value = annotations.get(key)
    if value is None:
        return absent
    if value == "forever":
        return FOREVER
    try:
        duration = parse_duration(value)
    except ValueError:
        duration = None
    if not isinstance(duration, timedelta):
        raise AnnotationError(f"annotation {key}: {value!r} is not a duration such as 5s, 1h30m or forever")
    return duration.total_seconds()


def _codes(annotations: Mapping[str, str], key: str, absent: tuple[int, ...]) -> tuple[int, ...]:
    value = annotations.get(key)
    if value is None:
        return absent
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) <= 255 for part in parts):
        raise AnnotationError(f"annotation {key}: {value!r} is not an exit code from 0 to 255 or a list such as 1,0")
    return tuple(map(int, parts))

"""What a simulated pod goes through, as data and as a function of the time: nothing is run and nothing is remembered.

A pod says by annotations how long its containers run and how they end; :class:`Stages` are the values for what it does
not say. From these and the moment at which the pod came to its node, :func:`at` tells where it stands at any later
moment, and until when. So a kubelet that is started anew goes on where the last one stopped.

====================================  ==================================================================================
``sim.volcanopy.io/start-delay``      How long its containers take to be created: ``500ms``.
``sim.volcanopy.io/duration``         How long its containers run: ``5s``, ``1h30m``, or ``forever``.
``sim.volcanopy.io/exit-code``        With what they end: ``"1"``; or one after the other, run by run: ``"1,1,0"``.
``sim.volcanopy.io/stop-delay``       How long they take to stop when the pod is deleted.
``sim.volcanopy.io/back-off``         The pause before the second restart of a container; it doubles from then on.
====================================  ==================================================================================

``duration`` and ``exit-code`` may be said of one container: ``sim.volcanopy.io/duration.sidecar``. That is the only way
to say them of an init container, which otherwise takes a tenth of a second and ends well.
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
"""No run takes less (seconds), lest a container that is restarted for ever does so without time passing."""
STABLE = 600.0
"""A run of this many seconds makes the restarts before it forgotten."""
KILLED, TERMINATED = 137, 143

RestartPolicy = Literal["Always", "OnFailure", "Never"]


class AnnotationError(ValueError):
    """An annotation that cannot be understood, in one sentence."""


@dataclass(frozen=True)
class Stages:
    """What holds where a pod says nothing. Times are in seconds.

    Containers that may be restarted whatever their end (restartPolicy Always) run for ever; the others for a time
    between the two ``durations``, by the pod's uid.
    """

    start_delay: float = 0.1
    init_duration: float = 0.1
    durations: tuple[float, float] = (2.0, 5.0)
    stop_delay: float = 0.1
    back_off: float = 10.0
    back_off_limit: float = 300.0


class Container(NamedTuple):
    """One container's script: how long each run of it takes, how each ends, and whether it is run again."""

    name: str
    image: str
    duration: float
    codes: tuple[int, ...]
    restart: RestartPolicy
    back_off: float
    back_off_limit: float

    def code(self, run: int) -> int:
        """How the run of this number ends; the last that was said holds for all that follow."""
        return self.codes[min(run, len(self.codes) - 1)]

    @property
    def sidecar(self) -> bool:
        """Whether an init container runs beside the others instead of before them."""
        return self.restart == "Always"


@dataclass(frozen=True)
class Script:
    """Everything that will happen to a pod, unless somebody deletes it. ``deadline`` counts from its start."""

    start_delay: float
    stop_delay: float
    init: tuple[Container, ...]
    main: tuple[Container, ...]
    deadline: float = FOREVER


class Run(NamedTuple):
    """A run of a container that is over."""

    began: float
    ended: float
    code: int
    reason: str


class Span(NamedTuple):
    """A container at a moment: how it stands, how often it was restarted, since when, and its last run that is over."""

    state: Literal["waiting", "running", "terminated"]
    restarts: int = 0
    since: float = 0.0
    last: Run | None = None
    reason: str = ""


@dataclass(frozen=True)
class Moment:
    """A pod at a moment, in seconds of the epoch. ``until`` is when it changes by itself next."""

    phase: Literal["Pending", "Running", "Succeeded", "Failed"]
    init: tuple[Span, ...]
    main: tuple[Span, ...]
    until: float
    initialized: float | None = None
    reason: str = ""
    message: str = ""

    @property
    def over(self) -> bool:
        """Whether the pod has come to its end."""
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
    """Read what will happen to a pod.

    ``containers`` are pairs of name and image, ``init_containers`` have a restart policy of their own as well. Raises
    AnnotationError.
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
            if own == "Always"
            else container(name, image, stages.init_duration, (0,), before)
            for name, image, own in init_containers
        ),
        main=tuple(container(name, image, duration, codes, restart) for name, image in containers),
        deadline=FOREVER if deadline is None else float(deadline),
    )


def at(script: Script, began: float, now: float) -> Moment:
    """Where a pod stands that came to its node at ``began``."""
    limit = began + script.deadline
    if now < limit:
        found = _undisturbed(script, began, now)
        return found if found.over else replace(found, until=min(found.until, limit))
    found = _undisturbed(script, began, limit)
    if found.over:
        return found
    message = "Pod was active on the node longer than the specified deadline"
    return replace(cut(found, limit, TERMINATED), phase="Failed", reason="DeadlineExceeded", message=message)


def cut(moment: Moment, now: float, code: int) -> Moment:
    """The pod after its containers were told to stop: those that run end with this exit code."""

    def end(span: Span) -> Span:
        if span.state != "running":
            return span
        return Span("terminated", span.restarts, now, Run(span.since, now, code, "Error"))

    main = tuple(map(end, moment.main))
    well = all(span.state == "terminated" and span.last is not None and span.last.code == 0 for span in main)
    return Moment(
        "Succeeded" if well else "Failed", tuple(map(end, moment.init)), main, FOREVER, initialized=moment.initialized
    )


def _undisturbed(script: Script, began: float, now: float) -> Moment:
    """The pod with no one interfering."""
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
            found = Moment(phase, (*init, *rest), main, min(until, changes))
            if not found.over:
                return found
            # Those beside it are as they were at that moment, not as they would have gone on.
            return _undisturbed(script, began, span.since) if span.since < now else cut(found, now, TERMINATED)
        start = span.since
    spans = [_container(container, start, now) for container in script.main]
    main = tuple(span for span, _ in spans)
    until = min([until, *(changes for _, changes in spans)])
    if any(span.state != "terminated" for span in main):
        return Moment("Running", tuple(init), main, until, initialized=start)
    ended = max(span.since for span in main)
    if ended < now:
        return _undisturbed(script, began, ended)
    # Sidecars are stopped once nothing needs them any more; what they say then does not count.
    beside = tuple(_stopped(span, ended) if span.state != "terminated" else span for span in init)
    well = all(span.last is not None and span.last.code == 0 for span in main)
    return Moment("Succeeded" if well else "Failed", beside, main, FOREVER, initialized=start)


def _stopped(span: Span, ended: float) -> Span:
    return Span("terminated", span.restarts, ended, Run(span.since or ended, ended, 0, "Completed"))


def _container(container: Container, began: float, now: float) -> tuple[Span, float]:
    """A container at a moment, and when it changes next; its first run begins at ``began``."""
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
    said = annotations.get(key)
    if said is None:
        return absent
    if said == "forever":
        return FOREVER
    try:
        found = parse_duration(said)
    except ValueError:
        found = None
    if not isinstance(found, timedelta):
        raise AnnotationError(f"annotation {key}: {said!r} is no duration: write 5s, 1h30m or forever")
    return found.total_seconds()


def _codes(annotations: Mapping[str, str], key: str, absent: tuple[int, ...]) -> tuple[int, ...]:
    said = annotations.get(key)
    if said is None:
        return absent
    parts = [part.strip() for part in said.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) <= 255 for part in parts):
        raise AnnotationError(
            f"annotation {key}: {said!r} is no exit code: write a number from 0 to 255, or several: 1,0"
        )
    return tuple(map(int, parts))

"""One run of chaos: gangs of mixed sizes arrive while faults happen; then all is calm, and every job must end.

1. Start what the settings name: the embedded API server, nodes, services behind proxies.
2. Submit gangs and inject faults, several at a time, for the given time.
3. End all faults and wait until every job has ended.
4. Delete the jobs and wait until nothing of them is left.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

from chaos.fault import Fault
from chaos.faults import FAULTS
from chaos.gangs import SIZES, gang
from chaos.judge import Judge, following, replicas
from chaos.site import Site, surely
from volcanopy.kube.client import raw_kinds
from volcanopy.kube.client.errors import AlreadyExists, KubeError
from volcanopy.kube.client.kinds import Json

SUBMIT_SECONDS = 240.0
"""For which a job is submitted again and again while admission or the API server reject it."""


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """How much happens. Times are in seconds."""

    seconds: float = 60.0
    """For which gangs arrive and faults begin."""
    jobs: int = 20
    seed: int = 1
    gap: tuple[float, float] = (0.3, 2.0)
    """Least and longest pause between two faults."""
    settle: float = 300.0
    """For all jobs to end after the last fault, and again for their objects to be deleted."""
    faults: Sequence[Fault] = FAULTS


@dataclass
class Outcome:
    """What happened in a run."""

    injected: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    """Faults that the cluster rejected, such as changes that admission does not permit."""
    missing: dict[str, str] = field(default_factory=dict)
    """Faults that are impossible here, with the reason."""
    spoiled: Counter[int] = field(default_factory=Counter)
    """Requests answered with an error by the proxies, by code."""
    starts: Counter[str] = field(default_factory=Counter)
    """Starts of the processes of the run."""
    probe_kills: int = 0
    """How often one of them was killed because its liveness probes failed."""
    submitted: int = 0
    pods: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    settled_after: float = 0.0
    longest_part: float = 0.0
    faults: list[str] = field(default_factory=list)
    """Broken rules: what the product did wrong."""

    def document(self) -> Json:
        """Return the outcome as JSON data."""
        counters: Mapping[str, Counter[str] | Counter[int]] = {
            "injected": self.injected,
            "rejected": self.rejected,
            "spoiledAnswers": self.spoiled,
            "starts": self.starts,
            "ends": self.ends,
        }
        return {
            **{name: {str(key): count for key, count in sorted(counts.items())} for name, counts in counters.items()},
            "probeKills": self.probe_kills,
            "impossible": self.missing,
            "jobs": self.submitted,
            "pods": self.pods,
            "settledAfterSeconds": round(self.settled_after, 1),
            "longestPartOfAGangSeconds": round(self.longest_part, 1),
            "brokenRules": self.faults,
        }


async def run(site: Site, settings: RunSettings) -> Outcome:
    """Run chaos in the site's namespace, which must exist and have no jobs; return what happened."""
    outcome = Outcome(missing={fault.name: why for fault in settings.faults if (why := fault.missing(site))})
    possible = [fault for fault in settings.faults if fault.name not in outcome.missing]
    async with following(site.judge, site.access):
        submitting = asyncio.create_task(_submit(site, settings, outcome))
        try:
            await _inject(site, possible, settings, outcome)
            calm = time.monotonic()
            await submitting
        finally:
            submitting.cancel()
        judge = site.judge
        await judge.until(lambda: not judge.unfinished() and _complete(judge), settings.settle)
        outcome.settled_after = time.monotonic() - calm
        judge.finish()
        await _clean_up(site, settings.settle)
    for proxy in site.proxies:
        outcome.spoiled += proxy.spoiled
    processes = [*site.services, *([site.server] if site.server is not None else [])]
    for process in processes:
        outcome.starts[process.name] += process.starts
        outcome.probe_kills += process.probe_kills
    outcome.pods, outcome.ends = len(judge.made), judge.ends
    outcome.longest_part, outcome.faults = judge.longest_part, judge.faults
    return outcome


def _complete(judge: Judge) -> bool:
    """Whether all jobs that must exist are seen; the watch may be behind."""
    return judge.expected.keys() <= {record.name for record in judge.jobs.values()}


async def _submit(site: Site, settings: RunSettings, outcome: Outcome) -> None:
    """Submit the gangs, evenly over four fifths of the time: a job that is rejected for a while does not delay the next."""
    rng = Random(settings.seed)

    async def submit(job: Json) -> None:
        name = job["metadata"]["name"]
        site.judge.expected[name] = replicas(job)
        create = partial(site.client.create, raw_kinds.JOBS, site.namespace, job, deadline=10.0)
        try:
            await surely(create, SUBMIT_SECONDS, (AlreadyExists,))
        except KubeError as error:
            site.judge.expected.pop(name, None)
            site.judge.faults.append(f"job {name} could not be submitted for {SUBMIT_SECONDS:g} s: {error}")
        else:
            outcome.submitted += 1

    async with asyncio.TaskGroup() as tasks:
        for number in range(settings.jobs):
            tasks.create_task(submit(gang(f"chaos-{number:04}", rng.choice(SIZES), rng)))
            await asyncio.sleep(settings.seconds * 0.8 / max(1, settings.jobs))


async def _inject(site: Site, possible: Sequence[Fault], settings: RunSettings, outcome: Outcome) -> None:
    """Inject faults until the time is over, and wait for the end of the last one."""
    end = time.monotonic() + settings.seconds

    async def inject(fault: Fault) -> None:
        try:
            if await fault.inject(site):
                outcome.injected[fault.name] += 1
        except (KubeError, OSError):
            outcome.rejected[fault.name] += 1

    async with asyncio.TaskGroup() as tasks:
        while time.monotonic() < end:
            if possible:
                tasks.create_task(inject(site.rng.choice(possible)))
            await asyncio.sleep(site.rng.uniform(*settings.gap))


async def _clean_up(site: Site, seconds: float) -> None:
    """Delete the jobs; what is left of them is a broken rule."""
    judge = site.judge
    with contextlib.suppress(KubeError):
        await site.client.delete_collection(raw_kinds.JOBS, site.namespace, propagation="Background")
    await judge.until(lambda: not judge.left(), seconds)
    judge.faults.extend(f"{text} is left after its job was deleted" for text in judge.left())

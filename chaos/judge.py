"""The judge: follows pods, jobs, PodGroups and nodes with requests of its own, and counts with definitions of its own.

It reads raw JSON and imports nothing of volcanopy: an error of the client, of the models or of the amounts cannot hide from
it. What it has not seen, because the API server was away, it reads again from a list: a state that lasts is found, one that
comes and goes in that time is not.
"""

import asyncio
import contextlib
import json
import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import aiohttp

Json = dict[str, Any]
OVER = frozenset({"Succeeded", "Failed"})
FINAL = frozenset({"Completed", "Failed", "Terminated"})
"""Phases that a job does not leave."""
ENDED = FINAL | {"Aborted"}
RELIST_PAUSE = 0.2
STALL = 20.0
"""Seconds of silence after which a watch is opened anew: the API server sends bookmarks only each minute."""
LONGEST_EVENT = 2**24
"""Bytes of the longest event of a watch that is read."""
_AMOUNT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d+)|([KMGTPE]i|[numkMGTPE]?))")
_BINARY, _DECIMAL = "KMGTPE", {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


@dataclass(frozen=True)
class Access:
    """How the API server is reached: ``headers`` returns those of a request, ``options`` are further arguments of aiohttp."""

    url: str
    headers: Callable[[], Awaitable[Mapping[str, str]]]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class _JobRecord:
    """A job of the run: its last state, and since when part of its gang runs alone."""

    body: Json
    part_since: float | None = None
    phase: str = ""

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def least(self) -> int:
        return int(self.body["spec"].get("minAvailable") or replicas(self.body))


@dataclass
class Judge:
    """Watches the pods and nodes of a cluster and the jobs of one namespace; ``faults`` has a sentence for each broken rule.

    ``window`` is the time in seconds for which part of a gang may run without the rest. ``clock`` returns monotonic seconds.
    """

    namespace: str
    expected: dict[str, int] = field(default_factory=dict)
    """The jobs that must exist, with the most replicas that each was given: noted before the request that makes or changes it."""
    window: float = 90.0
    clock: Callable[[], float] = time.monotonic
    faults: list[str] = field(default_factory=list)
    pods: dict[str, Json] = field(default_factory=dict)
    jobs: dict[str, _JobRecord] = field(default_factory=dict)
    groups: dict[str, Json] = field(default_factory=dict)
    nodes: dict[str, Json] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    """The uids of all pods of the namespace that were seen."""
    longest_part: float = 0.0
    """The longest time in seconds for which part of a gang ran alone."""
    ends: Counter[str] = field(default_factory=Counter)
    """Jobs by the phase in which they ended."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at every change."""
    _nodes_of: dict[str, str] = field(default_factory=dict)

    # Following

    async def follow(self, access: Access) -> None:
        """Follow the cluster until cancelled."""
        jobs = f"/apis/batch.volcanopy.io/v1alpha1/namespaces/{self.namespace}/batchjobs"
        groups = f"/apis/scheduling.volcanopy.io/v1beta1/namespaces/{self.namespace}/podgroups"
        async with aiohttp.ClientSession(read_bufsize=LONGEST_EVENT) as session, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow(session, access, "/api/v1/pods", self.pods, self.pod))
            tasks.create_task(self._follow(session, access, "/api/v1/nodes", self.nodes, self.node))
            tasks.create_task(self._follow(session, access, jobs, self.jobs, self.job))
            tasks.create_task(self._follow(session, access, groups, self.groups, self.group))

    async def _follow(
        self,
        session: aiohttp.ClientSession,
        access: Access,
        path: str,
        bodies: dict[str, Any],
        see: Callable[[Json, bool], None],
    ) -> None:
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError, ValueError):
                async with _answer(session, access, path, {}) as response:
                    listing = json.loads(await response.read())
                self._replace(listing["items"], bodies, see)
                version = listing["metadata"]["resourceVersion"]
                watch = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": "300"}
                async with _answer(session, access, path, watch | {"resourceVersion": version}) as response:
                    async for line in response.content:
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            break
                        if event["type"] != "BOOKMARK":
                            see(event["object"], event["type"] == "DELETED")
                            self.changed.set()
            await asyncio.sleep(RELIST_PAUSE)

    def _replace(self, items: Iterable[Json], bodies: dict[str, Any], see: Callable[[Json, bool], None]) -> None:
        present = {item["metadata"]["uid"]: item for item in items}
        for uid in bodies.keys() - present.keys():
            see(_body(bodies[uid]), True)
        if bodies is not self.jobs:
            bodies.update(present)  # all of one moment, before the first is judged
        for item in present.values():
            see(item, False)
        self.changed.set()

    # Rules

    def _fault(self, text: str) -> None:
        self.faults.append(text)

    def node(self, body: Json, gone: bool) -> None:
        """See a node: it is large enough for its pods, also for those that were seen before its allocatable resources."""
        before = self.nodes.get(body["metadata"]["uid"])
        _put(self.nodes, body, gone)
        if not gone and not _allocatable(before):
            name = body["metadata"]["name"]
            bound = [pod for pod in self.pods.values() if pod["spec"].get("nodeName") == name]
            if bound:
                self._fits(name, bound[-1])

    def group(self, body: Json, gone: bool) -> None:
        """See a PodGroup."""
        _put(self.groups, body, gone)

    def pod(self, body: Json, gone: bool) -> None:
        """See a pod: it is bound once, its node is large enough, and no job has more pods than replicas."""
        uid, node = body["metadata"]["uid"], body["spec"].get("nodeName", "")
        if body["metadata"]["namespace"] == self.namespace:
            self.made.add(uid)
        before = self._nodes_of.get(uid, "")
        if before and node and node != before:
            self._fault(f"pod {_key(body)} is bound to {node} after {before}")
        _put(self.pods, body, gone)
        if gone:
            self._nodes_of.pop(uid, None)
        elif node and not before:
            self._nodes_of[uid] = node
            self._fits(node, body)
        if (job := self._job_of(body)) is not None:
            if not gone:
                self._not_doubled(job)
            self._gang(job)

    def job(self, body: Json, gone: bool) -> None:
        """See a job: an end is final."""
        uid = body["metadata"]["uid"]
        if gone:
            self.jobs.pop(uid, None)
            return
        record = self.jobs.setdefault(uid, _JobRecord(body))
        record.body = body
        phase = str(((body.get("status") or {}).get("state") or {}).get("phase", ""))
        if record.phase in FINAL and phase != record.phase:
            self._fault(f"job {record.name} is {phase} after {record.phase}")
        if phase in ENDED and record.phase != phase:
            self.ends[phase] += 1
        record.phase = phase
        self._gang(record)

    def _fits(self, node: str, pod: Json) -> None:
        body = next((node_body for node_body in self.nodes.values() if node_body["metadata"]["name"] == node), None)
        allocatable = _allocatable(body)
        if not allocatable:
            return  # judged when they are known: the watches of pods and nodes are not in step
        used: dict[str, int] = defaultdict(int)
        for other in self.pods.values():
            if other["spec"].get("nodeName") == node and _phase(other) not in OVER:
                for name, amount in _requests(other).items():
                    used[name] += amount
        for name, amount in used.items():
            if amount > (most := units(name, allocatable.get(name, "0"))):
                self._fault(f"node {node} has {name} {most}, and its pods request {amount} with {_key(pod)}")

    def _job_of(self, pod: Json) -> _JobRecord | None:
        owners = pod["metadata"].get("ownerReferences") or ()
        return next((self.jobs[owner["uid"]] for owner in owners if owner["uid"] in self.jobs), None)

    def _pods_of(self, job: _JobRecord) -> list[Json]:
        uid = job.body["metadata"]["uid"]
        return [
            pod
            for pod in self.pods.values()
            if any(owner["uid"] == uid for owner in pod["metadata"].get("ownerReferences") or ())
        ]

    def _not_doubled(self, job: _JobRecord) -> None:
        active = [
            pod for pod in self._pods_of(job) if _phase(pod) not in OVER and "deletionTimestamp" not in pod["metadata"]
        ]
        if len(active) > (most := self.expected.get(job.name, replicas(job.body))):
            self._fault(f"job {job.name} has {most} replicas and {len(active)} active pods")

    def _gang(self, job: _JobRecord) -> None:
        """Note since when part of a gang occupies nodes without the rest."""
        pods = self._pods_of(job)
        placed = sum(1 for pod in pods if pod["spec"].get("nodeName") and _phase(pod) != "Failed")
        running = any(pod["spec"].get("nodeName") and _phase(pod) not in OVER for pod in pods)
        if running and placed < job.least and job.phase not in ENDED:
            if job.part_since is None:
                job.part_since = self.clock()
        elif job.part_since is not None:
            self._end_part(job)

    def _end_part(self, job: _JobRecord) -> None:
        assert job.part_since is not None
        lasted, job.part_since = self.clock() - job.part_since, None
        self.longest_part = max(self.longest_part, lasted)
        if lasted > self.window:
            self._fault(f"part of the gang of job {job.name} ran alone for {lasted:.0f} s")

    # The end

    def unfinished(self) -> list[str]:
        """Return the jobs without an end, with their phases."""
        return sorted(
            f"{job.name} {job.phase or 'without phase'}" for job in self.jobs.values() if job.phase not in ENDED
        )

    def finish(self) -> None:
        """Judge what is left at the end: every job that should exist does and has ended, no gang is in part."""
        names = {job.name for job in self.jobs.values()}
        for name in sorted(self.expected.keys() - names):
            self._fault(f"job {name} is lost")
        for text in self.unfinished():
            self._fault(f"job {text}: no end")
        for job in self.jobs.values():
            if job.part_since is not None:
                self._end_part(job)

    def left(self) -> list[str]:
        """Return the pods, PodGroups and jobs of the namespace that exist."""
        pods = [f"pod {_key(pod)}" for pod in self.pods.values() if pod["metadata"]["namespace"] == self.namespace]
        groups = [f"PodGroup {_key(group)}" for group in self.groups.values()]
        return sorted([*pods, *groups, *(f"job {job.name}" for job in self.jobs.values())])

    async def until(self, is_true: Callable[[], bool], seconds: float) -> bool:
        """Wait for at most so many seconds until a predicate is true; return its value."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not is_true():
                    self.changed.clear()
                    await self.changed.wait()
        return is_true()


def _body(record: Any) -> Json:
    body: Json = record.body if isinstance(record, _JobRecord) else record
    return body


def _put(bodies: dict[str, Json], body: Json, gone: bool) -> None:
    if gone:
        bodies.pop(body["metadata"]["uid"], None)
    else:
        bodies[body["metadata"]["uid"]] = body


def _key(body: Json) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


def _allocatable(node: Json | None) -> Json:
    """Return what a node has for pods; nothing, if it is not known or has just been registered."""
    return ((node or {}).get("status") or {}).get("allocatable") or {}


def _phase(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def replicas(job: Json) -> int:
    """Return the replicas of all tasks of a job."""
    return sum(int(task.get("replicas", 1)) for task in job["spec"]["tasks"])


def _requests(pod: Json) -> dict[str, int]:
    """Return the sums of the containers' requests: cpu in milli-cpu, others as they are counted; and the pod itself."""
    sums: dict[str, int] = defaultdict(int)
    sums["pods"] = 1
    for container in pod["spec"].get("containers") or ():
        for name, text in ((container.get("resources") or {}).get("requests") or {}).items():
            sums[name] += units(name, text)
    return sums


def units(name: str, text: str | float) -> int:
    """Return an amount of a resource: cpu in milli-cpu, others as they are counted, rounded up. Raises ValueError."""
    match = _AMOUNT.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{name} is {text!r}, which is no amount")
    number, exponent, suffix = match.groups()
    if suffix and suffix[-1] == "i":
        factor = Fraction(1024) ** (_BINARY.index(suffix[0]) + 1)
    else:
        factor = Fraction(10) ** (int(exponent) if exponent else _DECIMAL[suffix or ""])
    return math.ceil(Fraction(number) * factor * (1000 if name == "cpu" else 1))


@contextlib.asynccontextmanager
async def _answer(
    session: aiohttp.ClientSession, access: Access, path: str, query: Mapping[str, str]
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Send a request; raises ClientError unless it succeeds."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=STALL, sock_read=STALL)
    headers = await access.headers()
    async with session.get(
        access.url + path, params=query, headers=headers, timeout=timeout, raise_for_status=True, **access.options
    ) as response:
        yield response


@contextlib.asynccontextmanager
async def following(judge: Judge, access: Access) -> AsyncIterator[None]:
    """Let the judge follow the cluster for the duration of the block."""
    task = asyncio.create_task(judge.follow(access))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

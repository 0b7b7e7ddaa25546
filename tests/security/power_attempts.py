"""Attempts to enter queues and to protect pods, made of the tables of entrances and powers."""

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from volcanopy.admission.powers import POWERS, Power
from volcanopy.api import names

if TYPE_CHECKING:
    from tests.security.test_queue_bypasses import Scene

Json = dict[str, Any]
Try = Callable[["Scene"], str]
RESERVED = POWERS
DENIED = "may not protect"
CARDS, EXAMPLE_OF_CARDS = "volcano.sh/vgpu-ids-new", "GPU-1,NVIDIA,8192,100:"
NPUS = "hami.io/Ascend910B3-devices-allocated"
GROUP = "scheduling.k8s.io/group-name"


def with_power(manifest: Json, power: Power, *, label: bool = False) -> Json:
    """The object or template with a power."""
    made = copy.deepcopy(manifest)
    for key in power.keys:
        metadata = made.setdefault("metadata", {})
        part = "labels" if label else "annotations"
        metadata[part] = metadata.get(part, {}) | {key: power.example}
    if power.field:
        made.setdefault("spec", {})[power.field] = power.example
    return made


def with_template(job: Json, power: Power) -> Json:
    """The job with a power of its pods; its template is in ``spec.tasks`` or, of a cron job, in ``spec.jobTemplate``."""
    made = copy.deepcopy(job)
    spec = made["spec"].get("jobTemplate", made)["spec"]
    spec["tasks"][0]["template"] = with_power(spec["tasks"][0]["template"], power)
    return made


def with_alternative(job: Json, power: Power) -> Json:
    """The job with an alternative in which its pods have a power."""
    made = copy.deepcopy(job)
    task = {"name": made["spec"]["tasks"][0]["name"], "template": with_power({}, power)}
    made["spec"]["alternatives"] = [{"name": "other", "tasks": [task]}]
    return made


def name_of_group(power: Power) -> str:
    """The PodGroup in the queue without administrators, whose pod has a power."""
    return f"wide-{RESERVED.index(power)}"


def protected_groups(scene: "Scene") -> Iterator[Callable[[], str]]:
    """Create the PodGroups whose pods are protected, in the queue without administrators."""
    for power in RESERVED:
        name = name_of_group(power)
        pod = with_power(scene.pod(name, annotations={GROUP: name}), power)
        yield lambda name=name: scene.eve.create(scene.group(name, scene.wide))  # type: ignore[misc]
        yield lambda pod=pod: scene.eve.create(pod)  # type: ignore[misc]


def _of_power(power: Power) -> Iterator[tuple[str, Try]]:
    name, patch = power.name, with_power({}, power)
    yield f"a pod with {name}", lambda s: s.eve.create(with_power(s.pod("p", s.open), power))
    yield f"a job whose pods have {name}", lambda s: s.eve.create(with_template(s.job("j", s.open), power))
    yield (
        f"a job with an alternative whose pods have {name}",
        lambda s: s.eve.create(with_alternative(s.job("j", s.open), power)),
    )
    yield f"a cron job whose pods have {name}", lambda s: s.eve.create(with_template(s.cron("c", s.open), power))
    yield (
        f"a PodGroup moved to the queue, whose pods have {name}",
        lambda s: s.eve.patch("PodGroup", name_of_group(power), {"spec": {"queue": s.open}}),
    )
    if power.field not in {"", "priorityClassName"}:
        return
    yield f"a job with {name}", lambda s: s.eve.create(with_power(s.job("j", s.open), power))
    yield f"a PodGroup with {name}", lambda s: s.eve.create(with_power(s.group("g", s.open), power))
    yield f"a PodGroup that gets {name}", lambda s: s.eve.patch("PodGroup", "mine-group", patch)
    if not power.keys:
        return
    labels = with_power({}, power, label=True)
    yield f"a running pod that gets {name}", lambda s: s.eve.patch("Pod", "small", patch)
    yield f"a running pod that gets {name} as a label", lambda s: s.eve.patch("Pod", "small", labels)
    yield f"a job that gets {name}", lambda s: s.eve.patch("BatchJob", "mine", patch)


PROTECTIONS: dict[str, tuple[Try, str]] = {
    **{what: (attempt, DENIED) for power in RESERVED for what, attempt in _of_power(power)},
    "a running pod that gets an empty `volcanopy.io/preemptable`": (
        lambda s: s.eve.patch("Pod", "small", {"metadata": {"annotations": {names.PREEMPTABLE: ""}}}),
        DENIED,
    ),
}
"""In the queue ``open``, which has an administrator."""


def _queue(name: str) -> Json:
    return {"spec": {"queue": name}}


ADMITTED, FULL = "PodGroup is admitted, and queue", "maxQueuedJobs of queue"
ENTRANCES: dict[str, tuple[Try, str]] = {
    "a running PodGroup moved to a queue with a capability": (
        lambda s: s.eve.patch("PodGroup", "wide-0", _queue(s.open)),
        ADMITTED,
    ),
    "a running PodGroup moved to a queue that limits running jobs": (
        lambda s: s.eve.patch("PodGroup", "wide-0", _queue(s.full)),
        ADMITTED,
    ),
    "a job in a queue with `maxQueuedJobs` reached": (lambda s: s.eve.create(s.job("j", s.full)), FULL),
    "a PodGroup in a queue with `maxQueuedJobs` reached": (lambda s: s.eve.create(s.group("g", s.full)), FULL),
    "a pod in a queue with `maxQueuedJobs` reached": (lambda s: s.eve.create(s.pod("p", s.full)), FULL),
    "a waiting PodGroup moved to a queue with `maxQueuedJobs` reached": (
        lambda s: s.eve.patch("PodGroup", "waiting-group", _queue(s.full)),
        FULL,
    ),
    "a pod above the capability of its queue": (
        lambda s: s.eve.create(s.pod("p", s.open, "9")),
        "can never start",
    ),
    "a PodGroup above the capability of its queue": (
        lambda s: s.eve.create(s.group("g", s.open, minResources={"cpu": "9"})),
        "can never start",
    ),
    "a PodGroup enlarged above the capability of its queue": (
        lambda s: s.eve.patch("PodGroup", "mine-group", {"spec": {"minResources": {"cpu": "9"}}}),
        "can never start",
    ),
    "a job above the capability of its queue": (
        lambda s: s.eve.create(s.job("j", s.open) | _of_nine(s)),
        "can never start",
    ),
    "a job scaled above the capability of its queue": (
        lambda s: s.eve.patch("BatchJob", "mine", _of_nine(s)),
        "can never start",
    ),
    "a job in the root queue": (lambda s: s.eve.create(s.job("j", "root")), "not a leaf queue"),
    "a PodGroup moved to the root queue": (
        lambda s: s.eve.patch("PodGroup", "waiting-group", _queue("root")),
        "not a leaf queue",
    ),
    "a pod in a queue that does not exist": (lambda s: s.eve.create(s.pod("p", "none")), 'Not found: queue "none"'),
    "a PodGroup moved to a queue that does not exist": (
        lambda s: s.eve.patch("PodGroup", "waiting-group", _queue("none")),
        'Not found: queue "none"',
    ),
    "the owner reference of a job for a running pod": (
        lambda s: s.eve.patch("Pod", "small", {"metadata": s.job_owner("bobs")}),
        "only the controllers create a Pod of a BatchJob",
    ),
    "a pod with assigned GPUs (`volcano.sh/vgpu-ids-new`)": (
        lambda s: s.eve.create(s.pod("p", s.open, annotations={CARDS: EXAMPLE_OF_CARDS})),
        "the scheduler assigns devices",
    ),
    "a job whose pods have assigned GPUs": (
        lambda s: s.eve.create(with_template(s.job("j", s.open), Power("", keys=(CARDS,), example=EXAMPLE_OF_CARDS))),
        "the scheduler assigns devices",
    ),
    "assigned GPUs for a running pod": (
        lambda s: s.eve.patch("Pod", "small", {"metadata": {"annotations": {CARDS: EXAMPLE_OF_CARDS}}}),
        "the scheduler assigns devices",
    ),
    "assigned NPUs for a running pod (`hami.io/Ascend910B3-devices-allocated`)": (
        lambda s: s.eve.patch("Pod", "small", {"metadata": {"annotations": {NPUS: EXAMPLE_OF_CARDS}}}),
        "the scheduler assigns devices",
    ),
    "the label of a job for a running pod": (
        lambda s: s.eve.patch("Pod", "small", {"metadata": {"labels": {"volcanopy.io/job-name": "bobs"}}}),
        "label is set by the controllers",
    ),
}
"""Ways into a queue, and into the jobs of others."""


def _of_nine(scene: "Scene") -> Json:
    job = scene.job("mine", scene.open)
    task = job["spec"]["tasks"][0] | {"replicas": 9}
    return {"spec": {**job["spec"], "minAvailable": 9, "tasks": [task]}}

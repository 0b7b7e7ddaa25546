"""The powers of users over eviction that are reserved: what protects pods, and who may use it in which queue.

Reserved powers are for the administrators of the queue and the subjects in ``unpreemptable``; without both, every user has them.
Admission rejects them to others wherever it sees them. A PodDisruptionBudget is an object of its own, which may be created
at any time: the scheduler does not count it for pods of others (plugin ``pdb``).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from volcanopy.admission.access import administers, has_administrators, is_trusted, matches
from volcanopy.admission.context import Context
from volcanopy.admission.request import User, annotations, at, own_keys
from volcanopy.admission.submitter import is_kubernetes
from volcanopy.api import names
from volcanopy.api.core import MAX_GRACE_SECONDS
from volcanopy.api.model import Json, Problem, forbidden, parse_duration

CRITICAL_CLASSES = ("system-cluster-critical", "system-node-critical")
_TRUE = frozenset({"true", "1", "t"})


class Power(NamedTuple):
    """Something that protects pods from eviction. Annotations count as labels as well."""

    name: str
    """As in the table of all powers in docs/security.md."""
    keys: tuple[str, ...] = ()
    """Its annotations and labels."""
    field: str = ""
    """Its field in the spec."""
    is_used: Callable[[Any], bool] = bool
    """Whether a value uses it."""
    example: Any = None
    """A value that uses it."""


def _protects(value: Any) -> bool:
    return isinstance(value, str) and value.lower() not in _TRUE


def _is_positive(value: Any) -> bool:
    try:
        duration = parse_duration(value)
    except ValueError:
        return False  # reported with the other values
    return hasattr(duration, "total_seconds") and duration.total_seconds() > 0


def _is_critical(value: Any) -> bool:
    return value in CRITICAL_CLASSES


def _is_long(value: Any) -> bool:
    return isinstance(value, int) and value > MAX_GRACE_SECONDS


_BOTH = ("annotations", "labels")
POWERS = (
    Power(name='`volcanopy.io/preemptable: "false"`', keys=(names.PREEMPTABLE,), is_used=_protects, example="false"),
    Power(name="`volcanopy.io/cooldown-time`", keys=(names.COOLDOWN_TIME,), is_used=_is_positive, example="9999h"),
    Power(name="`volcanopy.io/jdb-min-available`", keys=(names.JDB_MIN_AVAILABLE,), example="9"),
    Power(name="`volcanopy.io/jdb-max-unavailable`", keys=(names.JDB_MAX_UNAVAILABLE,), example="1"),
    Power(
        name="`priorityClassName: system-node-critical`",
        field="priorityClassName",
        is_used=_is_critical,
        example="system-node-critical",
    ),
    Power(
        name="`terminationGracePeriodSeconds` above 3600",
        field="terminationGracePeriodSeconds",
        is_used=_is_long,
        example=86_400,
    ),
)
"""The reserved powers."""
CHOSEN_AT_CREATION = tuple((part, key) for power in POWERS for key in power.keys for part in _BOTH)
"""The labels and annotations that give a power: a change of them on a pod is reviewed."""


def may_protect(user: User, queue: str, context: Context) -> bool:
    """Return whether reserved powers are the user's in this queue; an unknown user is not restricted."""
    subjects = context.policy.unpreemptable
    if not user.name or is_trusted(user, context) or administers(queue, user, context):
        return True
    if subjects is None:
        return not has_administrators(queue, context)
    return matches(subjects, user, "")


def protection_problems(
    manifest: Json | None, old: Json | None, user: User, queue: str, context: Context, path: str = ""
) -> Iterator[Problem]:
    """Yield each reserved power that a user uses without being permitted to. An unchanged value is not checked again.

    ``path`` is that of the object or template, with a dot at its end.
    """
    used_powers = dict(_uses(manifest))
    if not used_powers or may_protect(user, queue, context):
        return
    before = dict(_uses(old))
    for field, value in used_powers.items():
        if before.get(field) != value:
            detail = f'user "{user.name}" may not protect pods from eviction in queue "{queue}": remove it'
            yield forbidden(f"{path}{field}", detail)


def _uses(manifest: Json | None) -> Iterator[tuple[str, Any]]:
    """Yield the paths and values with which an object or template uses a reserved power, under the keys of any API."""
    for part in _BOTH:
        content = at(manifest, "metadata", part)
        values = own_keys(content) if isinstance(content, dict) else {}
        for power in POWERS if values else ():
            for key in power.keys:
                if key in values and power.is_used(values[key]):
                    yield f"metadata.{part}[{key}]", values[key]
    for power in POWERS:
        value = at(manifest, "spec", power.field) if power.field else None
        if value is not None and power.is_used(value):
            yield f"spec.{power.field}", value


def power_problems(
    manifest: Json | None, old: Json | None, user: User, queue: str, context: Context, path: str = ""
) -> Iterator[Problem]:
    """Yield each power that a user uses in a pod or template, at this path with a dot at its end, without being permitted to."""
    yield from protection_problems(manifest, old, user, queue, context, path)
    yield from _assignment_problems(manifest, old, user, context, path)


def _is_assignment(key: str) -> bool:
    return key in names.ASSIGNMENT_KEYS or (
        key.startswith(names.HAMI_PREFIX) and key.endswith(names.NPU_ALLOCATED_SUFFIX)
    )


def _assignment_problems(
    manifest: Json | None, old: Json | None, user: User, context: Context, path: str
) -> Iterator[Problem]:
    """Yield each change of the devices and CPUs that are assigned to a pod: no user takes those of others, or hides their use."""
    if not user.name or is_trusted(user, context) or is_kubernetes(user):
        return
    before, after = annotations(old), annotations(manifest)
    for key in sorted(filter(_is_assignment, before.keys() | after.keys())):
        if before.get(key) != after.get(key):
            verb = f'keep "{before[key]}"' if key in before else "remove it"
            yield forbidden(f"{path}metadata.annotations[{key}]", f"the scheduler assigns devices and CPUs: {verb}")


def moved_problems(pods: Iterable[Json], user: User, queue: str, context: Context) -> Iterator[Problem]:
    """Yield the pods of a PodGroup that use a reserved power which the user has not in the queue that the PodGroup moves to."""
    for pod in pods:
        for problem in protection_problems(pod, None, user, queue, context):
            yield forbidden("spec.queue", f'pod "{at(pod, "metadata", "name")}": {problem.path}: {problem.message}')
            break

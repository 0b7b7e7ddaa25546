"""Conditions of objects that the local cluster's kubelets and controllers write."""

from collections.abc import Sequence

from volcanopy.kube.client.kinds import Json


def condition(kind: str, is_true: bool, since: str, why: str = "", why_true: str | None = None) -> Json:
    """Return a condition; one with a reason (``why``) while it is not true has the reason ``why_true`` while it is."""
    result: Json = {"type": kind, "status": "True" if is_true else "False", "lastTransitionTime": since}
    # With null where there is none: a patch does not change absent fields.
    return {**result, "reason": why_true if is_true else why} if why else result


def with_transition_times(conditions: Sequence[Json], before: Sequence[Json], now: str) -> list[Json]:
    """Return the conditions with the transition times of those whose status has not changed; ``now`` for the others."""
    times = {(item["type"], item["status"]): item["lastTransitionTime"] for item in before}
    return [{**item, "lastTransitionTime": times.get((item["type"], item["status"]), now)} for item in conditions]

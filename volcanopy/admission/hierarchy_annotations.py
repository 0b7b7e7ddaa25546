"""The place of a queue in the tree of hierarchical fairness, where it is said by annotations."""

from collections.abc import Iterator

from volcanopy.admission.context import Context
from volcanopy.admission.request import Request, annotations, at
from volcanopy.api import names
from volcanopy.api.model import Json, Problem


def with_root(manifest: Json) -> Json:
    """The queue with a path that begins at the root, where both path and weights are given."""
    said, metadata = annotations(manifest), at(manifest, "metadata")
    path, weights = said.get(names.HIERARCHY, ""), said.get(names.HIERARCHY_WEIGHTS, "")
    if not path or not weights or path.split("/")[0] == names.ROOT_QUEUE or not isinstance(metadata, dict):
        return manifest
    whole = {names.HIERARCHY: f"{names.ROOT_QUEUE}/{path}", names.HIERARCHY_WEIGHTS: f"1/{weights}"}
    return {**manifest, "metadata": {**metadata, "annotations": {**said, **whole}}}


def path_problems(request: Request, context: Context) -> Iterator[Problem]:
    """What is wrong with the path and its weights."""
    said = annotations(request.object)
    path, weights = said.get(names.HIERARCHY, ""), said.get(names.HIERARCHY_WEIGHTS, "")
    if not path and not weights:
        return
    steps, given = path.split("/") if path else [], weights.split("/") if weights else []
    at_weights = f"metadata.annotations[{names.HIERARCHY_WEIGHTS}]"
    if len(steps) != len(given):
        told = f"{weights!r} has {len(given)} parts and the path {path!r} has {len(steps)}: give each step one weight"
        yield Problem(at_weights, told)
    for one in given:
        if not _positive(one):
            yield Problem(at_weights, f"{one!r} is no weight: write a number above 0")
    if not all(steps):
        yield Problem(f"metadata.annotations[{names.HIERARCHY}]", f"{path!r} has an empty step: write root/a/b")
        return
    for other in sorted(context.queues or {}):
        taken = (context.queues or {})[other].metadata.annotations.get(names.HIERARCHY, "")
        if other != request.name and path and taken.startswith(f"{path}/"):
            told = f"queue {other!r} is at {taken!r}, below {path!r}: a queue with jobs stands at the end of its path"
            yield Problem(f"metadata.annotations[{names.HIERARCHY}]", told)
            return


def _positive(written: str) -> bool:
    try:
        number = float(written)
    except ValueError:
        return False
    return 0 < number < float("inf")

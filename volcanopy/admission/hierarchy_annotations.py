"""Annotations of a queue with its path and weights for hierarchical fairness."""

from collections.abc import Iterator

from volcanopy.admission.context import Context
from volcanopy.admission.request import Request, annotations, at
from volcanopy.api import names
from volcanopy.api.model import Json, Problem, invalid


def with_root(manifest: Json) -> Json:
    """Return the queue with a path that begins at the root, if both path and weights are set."""
    notes, metadata = annotations(manifest), at(manifest, "metadata")
    path, weights = notes.get(names.HIERARCHY, ""), notes.get(names.HIERARCHY_WEIGHTS, "")
    if not path or not weights or path.split("/")[0] == names.ROOT_QUEUE or not isinstance(metadata, dict):
        return manifest
    notes |= {names.HIERARCHY: f"{names.ROOT_QUEUE}/{path}", names.HIERARCHY_WEIGHTS: f"1/{weights}"}
    return {**manifest, "metadata": {**metadata, "annotations": notes}}


def path_problems(request: Request, context: Context) -> Iterator[Problem]:
    """Yield the problems of the path and its weights."""
    notes = annotations(request.object)
    path, weights = notes.get(names.HIERARCHY, ""), notes.get(names.HIERARCHY_WEIGHTS, "")
    if not path and not weights:
        return
    steps, given = path.split("/") if path else [], weights.split("/") if weights else []
    path_key, weights_key = (f"metadata.annotations[{key}]" for key in (names.HIERARCHY, names.HIERARCHY_WEIGHTS))
    if len(steps) != len(given):
        detail = f'must have one weight for each element of path "{path}" ({len(steps)}), has {len(given)}'
        yield invalid(weights_key, weights, detail)
    for weight in given:
        if not _is_positive(weight):
            yield invalid(weights_key, weight, "weights must be numbers greater than 0")
    if not all(steps):
        yield invalid(path_key, path, "must not have empty elements, as in root/a/b")
        return
    for other in sorted(context.queues or {}):
        existing = (context.queues or {})[other].metadata.annotations.get(names.HIERARCHY, "")
        if other != request.name and path and existing.startswith(f"{path}/"):
            yield invalid(path_key, path, f'must be a leaf of the hierarchy: queue "{other}" has path "{existing}"')
            return


def _is_positive(text: str) -> bool:
    try:
        number = float(text)
    except ValueError:
        return False
    return 0 < number < float("inf")

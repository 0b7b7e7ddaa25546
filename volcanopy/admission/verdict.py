"""What comes of a review: what is wrong, what is doubted, what is changed; and how an API server is told."""

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from volcanopy.api.model import Json, Problem

MOST = 50
"""So many problems are told at once, so that no object makes an answer without end."""
_MOST_WARNINGS = 16
_LONGEST = 250


@dataclass(frozen=True)
class Warned:
    """Something that is legal and surely not meant."""

    about: Problem


Judgement = Iterable[Problem | Warned]


@dataclass(frozen=True)
class Verdict:
    """Whether an object is let in, what is said about it, and the patch (RFC 6902) of what is filled in."""

    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    patch: tuple[Json, ...] = ()

    @classmethod
    def of(cls, judgement: Judgement, patch: Iterable[Json] = ()) -> "Verdict":
        """The verdict after a judgement; no more is read of it than is told."""
        problems: list[Problem] = []
        warnings: list[str] = []
        for one in islice(judgement, 10 * MOST):
            if isinstance(one, Problem):
                if one not in problems:
                    problems.append(one)
            elif len(warnings) < _MOST_WARNINGS:
                said = str(one.about)
                warnings.append(said if len(said) <= _LONGEST else said[: _LONGEST - 3] + "...")
            if len(problems) > MOST:
                break
        return cls(tuple(problems), tuple(warnings), tuple(patch))

    def answer(self, uid: str) -> Json:
        """The AdmissionReview that says so."""
        response: Json = {"uid": uid, "allowed": not self.problems}
        if self.problems:
            told = [str(one) for one in self.problems[:MOST]] + ["and more"] * (len(self.problems) > MOST)
            response["status"] = {"code": 422, "reason": "Invalid", "message": "; ".join(told)}
        elif self.patch:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(json.dumps(list(self.patch)).encode()).decode()
        if self.warnings:
            response["warnings"] = list(self.warnings)
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def patch_between(before: Json, after: Json) -> list[Json]:
    """The JSON patch from one object to the other: whole fields of the spec, and annotations one by one."""
    found = _fields(before.get("spec"), after.get("spec"), "/spec")
    old, new = before.get("metadata"), after.get("metadata")
    if old is new or not isinstance(old, dict) or not isinstance(new, dict):
        return found
    notes, wanted = old.get("annotations"), new.get("annotations")
    if notes is None and wanted:
        return [*found, {"op": "add", "path": "/metadata/annotations", "value": wanted}]
    return found + _fields(notes, wanted, "/metadata/annotations")


def _fields(old: object, new: object, path: str) -> list[Json]:
    if old == new or not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return []
    return [
        {"op": "replace" if key in old else "add", "path": f"{path}/{_escaped(str(key))}", "value": value}
        for key, value in new.items()
        if key not in old or old[key] != value
    ]


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")

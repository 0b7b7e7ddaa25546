"""Responses of admission: problems, warnings and patches in the form of an AdmissionReview."""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from volcanopy.api.model import Json, Problem

MAX_PROBLEMS = 50
"""Maximum number of problems in a response."""
_MAX_WARNINGS = 16
_MAX_WARNING_LENGTH = 250


def as_warning(problem: Problem) -> Problem:
    """Return the problem as a warning, which does not call the accepted value invalid."""
    return replace(problem, message=problem.message.removeprefix("Invalid value: "), warning=True)


def with_severity(problems: Iterable[Problem], severity: str) -> Iterator[Problem]:
    """Yield problems as they are (``reject``), as warnings (``warn``), or not at all (``allow``)."""
    if severity != "allow":
        yield from problems if severity == "reject" else map(as_warning, problems)


@dataclass(frozen=True)
class AdmissionResponse:
    """Problems (the object is admitted if there are none), warnings, and the patch (RFC 6902) of an object."""

    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    patch: tuple[Json, ...] = ()
    temporary: bool = False
    """Whether the problem is admission's own: the same request may be admitted soon."""

    @classmethod
    def of(cls, findings: Iterable[Problem], patch: Iterable[Json] = ()) -> "AdmissionResponse":
        """Return the response with these findings, as many as fit into it."""
        problems: list[Problem] = []
        warnings: list[str] = []
        for finding in islice(findings, 10 * MAX_PROBLEMS):
            if not finding.warning:
                if finding not in problems:
                    problems.append(finding)
            elif len(warnings) < _MAX_WARNINGS:
                text = str(finding)
                warnings.append(text if len(text) <= _MAX_WARNING_LENGTH else text[: _MAX_WARNING_LENGTH - 3] + "...")
            if len(problems) > MAX_PROBLEMS:
                break
        return cls(tuple(problems), tuple(warnings), tuple(patch))

    def review(self, uid: str) -> Json:
        """Return the AdmissionReview with this response."""
        response: Json = {"uid": uid, "allowed": not self.problems}
        if self.problems:
            messages = [str(problem) for problem in self.problems[:MAX_PROBLEMS]]
            messages += ["and more"] * (len(self.problems) > MAX_PROBLEMS)
            code, reason = (503, "ServiceUnavailable") if self.temporary else (422, "Invalid")
            response["status"] = {"code": code, "reason": reason, "message": "; ".join(messages)}
        if self.warnings:
            response["warnings"] = list(self.warnings)
        return with_patch(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}, self.patch
        )


def with_patch(admission_review: Json, patch: Sequence[Json]) -> Json:
    """Return an AdmissionReview with a response that also patches the object, if it is admitted."""
    response = admission_review["response"]
    if not patch or not response["allowed"]:
        return admission_review
    encoded = base64.b64encode(json.dumps(list(patch)).encode()).decode()
    return {**admission_review, "response": {**response, "patchType": "JSONPatch", "patch": encoded}}


def patch_between(before: Json, after: Json) -> list[Json]:
    """Return the JSON patch from one object to another: whole fields of the spec, and single annotations."""
    patch = _fields(before.get("spec"), after.get("spec"), "/spec")
    old, new = before.get("metadata"), after.get("metadata")
    if old is new or not isinstance(old, dict) or not isinstance(new, dict):
        return patch
    old_annotations, annotations = old.get("annotations"), new.get("annotations")
    if old_annotations is None and annotations:
        return [*patch, {"op": "add", "path": "/metadata/annotations", "value": annotations}]
    return patch + _fields(old_annotations, annotations, "/metadata/annotations")


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

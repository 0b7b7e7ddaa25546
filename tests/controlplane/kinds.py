"""Custom kinds of no meaning, for the tests of the harness."""

from typing import Any


def crd(plural: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the definition of a namespaced kind of example.org/v1 whose spec has the given schema."""
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind}
    return {
        "metadata": {"name": f"{plural}.example.org"},
        "spec": {"group": "example.org", "scope": "Namespaced", "names": names, "versions": [version]},
    }


OWNER = crd("owners", "Owner", {"type": "object"})

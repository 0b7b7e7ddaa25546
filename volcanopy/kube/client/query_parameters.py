"""What is said in a request besides its path and its object: queries, and the options of a deletion."""

from typing import Any
from urllib.parse import urlencode

import msgspec


def query(**parameters: str | int) -> str:
    """The parameters that are not empty, as the end of a URL; empty if there are none."""
    given = {name: value for name, value in parameters.items() if value != ""}
    return f"?{urlencode(given)}" if given else ""


def delete_options(uid: str, resource_version: str, propagation: str | None, grace: int | None) -> bytes | None:
    """The body of a deletion, None if nothing is to be said."""
    options: dict[str, Any] = {}
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    if propagation is not None:
        options["propagationPolicy"] = propagation
    conditions = {name: value for name, value in (("uid", uid), ("resourceVersion", resource_version)) if value}
    if conditions:
        options["preconditions"] = conditions
    return msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", **options}) if options else None

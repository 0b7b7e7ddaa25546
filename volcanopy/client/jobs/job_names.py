"""Names of jobs that follow from names of other things, such as functions, scripts and rules."""

import re
import secrets

LONGEST = 40
"""Characters of the readable part: a name and the suffixes of pods have 63."""


def name_part(text: str, default: str) -> str:
    """Return a text in the characters of names, or the default if it has no letter or digit."""
    return re.sub("[^a-z0-9]+", "-", text.lower()).strip("-")[:LONGEST].strip("-") or default


def new_name(text: str, default: str) -> str:
    """Return a name that no other job has."""
    return f"{name_part(text, default)}-{secrets.token_hex(4)}"

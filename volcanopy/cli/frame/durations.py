"""Lengths of time that people give to options: ``30s``, ``5m``, ``1h30m``."""

import re

from volcanopy.cli.errors import Stop

_PARTS = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(option: str, text: str) -> float:
    """The seconds of a duration; one without a unit is in seconds. Raises Stop for what is none."""
    if text.isdecimal():
        return float(text)
    parts = list(_PARTS.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        raise Stop(f"{option}: {text!r} is no duration, such as 30s, 5m or 1h30m", 2)
    return sum(float(part[1]) * _SECONDS[part[2]] for part in parts)

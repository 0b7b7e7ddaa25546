"""The string formats and number ranges that a custom resource's schema can name, as predicates."""

import ipaddress
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

import re2


@lru_cache(maxsize=1024)
def pattern(text: str) -> Any:
    """Compile a regular expression of a schema or of CEL (RE2 syntax, as on a real server; linear in the text).

    Raises PatternError where it is no expression.
    """
    try:
        return re2.compile(text, _options())
    except re2.error as error:
        message = error.args[0] if error.args else error
        readable = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
        raise PatternError(readable) from None


@lru_cache(maxsize=1024)
def matcher(text: str) -> Callable[[str], bool]:
    """Return whether an expression of a schema matches anywhere in a value. Raises PatternError."""
    search = pattern(text).search
    if not text.isascii():
        return lambda value: search(value) is not None
    # On bytes the library need not compute the places in characters: a quarter of the time.
    search_ascii = re2.compile(text.encode(), _options()).search

    def matches(value: str) -> bool:
        return (search_ascii(value.encode()) if value.isascii() else search(value)) is not None

    return matches


class PatternError(ValueError):
    """A text that is not a regular expression."""


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    return options


_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)")
_DURATION_PART = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*([a-zµμ]+)", re.IGNORECASE)
_UNIT_NAMES: Final = {
    "nano": "ns", "micro": "us", "milli": "ms", "sec": "s", "second": "s", "min": "m", "minute": "m", "hr": "h",
    "hour": "h", "day": "d", "wk": "w", "week": "w",
}  # fmt: skip
_UNIT_SECONDS: Final = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800,
}  # fmt: skip


def parse_timestamp(text: str) -> datetime | None:
    """The instant that an RFC 3339 text names, None where it is none."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    day, clock, fraction, zone = match.groups()
    try:
        return datetime.fromisoformat(f"{day}T{clock}.{(fraction or '0')[:6]:0<6}{'+00:00' if zone in 'Zz' else zone}")
    except ValueError:
        return None


def parse_duration(text: str) -> timedelta | None:
    """The length that a duration such as `1h30m` names, None where it is none."""
    sign = -1 if text.startswith("-") else 1
    body = text.lstrip("+-")
    if body == "0":
        return timedelta()
    seconds = 0.0
    position = 0
    while position < len(body):
        match = _DURATION_PART.match(body, position)
        if match is None:
            return None
        unit = match.group(2).lower()
        unit = _UNIT_NAMES.get(unit.removesuffix("s"), unit)
        if unit not in _UNIT_SECONDS:
            return None
        seconds += float(match.group(1)) * _UNIT_SECONDS[unit]
        position = match.end()
    return timedelta(seconds=sign * seconds) if body else None


def _date(text: str) -> bool:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _ip(kind: type[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            kind(text)
        except ValueError:
            return False
        return True

    return check


def _cidr(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


def _form(expression: str) -> Callable[[str], bool]:
    compiled = re.compile(expression, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_HOST_LABEL: Final = "[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?"
_HEX: Final = "[0-9a-fA-F]"
_UUID: Final = f"{_HEX}{{8}}-?{_HEX}{{4}}-?{{version}}{_HEX}{{3}}-?{{variant}}{_HEX}{{3}}-?{_HEX}{{12}}"


def _uuid(version: str, variant: str = _HEX) -> Callable[[str], bool]:
    return _form(_UUID.replace("{version}", version).replace("{variant}", variant))


# A format that is not listed here constrains nothing, as on a real server.
FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "byte": _form(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "bsonobjectid": _form(f"{_HEX}{{24}}"),
    "cidr": _cidr,
    "date": _date,
    "date-time": lambda text: parse_timestamp(text) is not None,
    "datetime": lambda text: parse_timestamp(text) is not None,
    "duration": lambda text: parse_duration(text) is not None,
    "email": _form(r"[^@\s]+@[^@\s]+"),
    "hexcolor": _form(f"#?({_HEX}{{3}}|{_HEX}{{6}})"),
    "hostname": _form(rf"(?=.{{1,255}}\Z)({_HOST_LABEL}|({_HOST_LABEL}\.)+[A-Za-z]{{2,63}})"),
    "ipv4": _ip(ipaddress.IPv4Address),
    "ipv6": _ip(ipaddress.IPv6Address),
    "k8s-long-name": _form(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*"),
    "k8s-short-name": _form(rf"(?=.{{1,63}}\Z){_LABEL}"),
    "mac": _form(f"{_HEX}{{2}}([:-]{_HEX}{{2}}){{5}}|({_HEX}{{4}}\\.){{2}}{_HEX}{{4}}"),
    "uri": _uri,
    "uuid": _uuid(_HEX),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4", "[89abAB]"),
    "uuid5": _uuid("5", "[89abAB]"),
}  # fmt: skip

INTEGER_RANGES: Final = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}

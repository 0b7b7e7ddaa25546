"""Objects that installed packages provide as entry points, loaded and validated.

A package provides a scheduler plugin as an entry point of the group ``volcanopy.plugins``, an action as one of
``volcanopy.actions``, a job plugin as one of ``volcanopy.job_plugins``. The name of the entry point is the one that the
configuration file, or a job's ``spec.plugins``, uses.
"""

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

T = TypeVar("T")


class ThirdPartyError(ValueError):
    """An installed package is invalid; the message names it."""


def load(kind: str, group: str, ours: Mapping[str, Any], check: Callable[["Loaded"], T]) -> list[T]:
    """Return the checked objects of a group by name. Raises ThirdPartyError, also for the name of one of ours."""
    loaded: dict[str, tuple[str, T]] = {}
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        origin = f"{kind} {point.name!r} of {_package(point)}"
        if point.name in ours:
            raise ThirdPartyError(f"{origin} has the name of a {kind} that comes with volcanopy: give it another")
        if point.name in loaded:
            raise ThirdPartyError(f"{origin} has the name of one of {loaded[point.name][0]}: uninstall one of the two")
        try:
            loaded[point.name] = (_package(point), check(_load(point)))
        except Fault as fault:
            raise ThirdPartyError(f"{origin} (entry point {point.value}) {fault}") from fault.__cause__
    return [item for _, item in loaded.values()]


class Fault(Exception):
    """An entry point is invalid; the message continues a sentence that starts with its name."""


class Loaded:
    """A loaded object with the name of its entry point."""

    def __init__(self, name: str, item: Any) -> None:
        self.name, self.item = name, item

    def must(self, condition: bool, problem: str) -> None:
        """Reject the object unless the condition is true."""
        if not condition:
            raise Fault(problem)

    def must_be_named(self) -> None:
        """Reject an object whose name differs from that of its entry point."""
        name = getattr(self.item, "name", None)
        self.must(name == self.name, f"has the name {name!r}: give it the name of its entry point")


def _load(point: EntryPoint) -> Loaded:
    try:
        return Loaded(point.name, point.load())
    except Exception as error:
        why = " ".join(str(error).split()) or "without a message"
        raise Fault(f"cannot be loaded: {type(error).__name__}: {why}; mend the package or uninstall it") from error


def what(item: Any) -> str:
    """Return what an object is, for an error."""
    return (
        f"the class {item.__qualname__}"
        if isinstance(item, type)
        else f"an object of the type {type(item).__qualname__}"
    )


def _package(point: EntryPoint) -> str:
    return f"package {point.dist.name} {point.dist.version}" if point.dist else "an unnamed package"

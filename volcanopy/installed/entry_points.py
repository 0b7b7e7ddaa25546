"""Objects that installed packages provide as entry points, loaded and validated.

A package provides a scheduler plugin as an entry point of the group ``volcanopy.plugins``, an action as one of
``volcanopy.actions``, a job plugin as one of ``volcanopy.job_plugins``. The name of the entry point is the one that the
configuration file, or a job's ``spec.plugins``, uses. A package is loaded and checked when one of these names it.
"""

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from volcanopy.api.config_file import ConfigError

T = TypeVar("T")


class ThirdPartyError(ConfigError):
    """An installed package is invalid; the message names it."""


class Installed(Mapping[str, T]):
    """The objects of a group by name: those that come with volcanopy, and those of packages, loaded when they are used."""

    def __init__(self, kind: str, group: str, builtins: Mapping[str, T], check: Callable[["Loaded"], T]) -> None:
        """Raises ThirdPartyError for a name that two packages have, or volcanopy and a package."""
        self._kind, self._objects, self._check = kind, dict(builtins), check
        self._points: dict[str, EntryPoint] = {}
        for point in _points(group, tuple(sys.path)):
            if point.name in builtins:
                raise ThirdPartyError(
                    f"{self._origin(point)} has the name of a {kind} that comes with volcanopy: give it another"
                )
            if point.name in self._points:
                first = _package(self._points[point.name])
                raise ThirdPartyError(f"{self._origin(point)} has the name of one of {first}: uninstall one of the two")
            self._points[point.name] = point
        self._names = (*builtins, *self._points)

    def __getitem__(self, name: str) -> T:
        if name not in self._objects:
            point = self._points[name]
            try:
                self._objects[name] = self._check(_load(point))
            except Fault as fault:
                raise ThirdPartyError(f"{self._origin(point)} (entry point {point.value}) {fault}") from fault.__cause__
        return self._objects[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def _origin(self, point: EntryPoint) -> str:
        return f"{self._kind} {point.name!r} of {_package(point)}"


@functools.cache
def _points(group: str, _search_path: tuple[str, ...]) -> list[EntryPoint]:
    """Return the entry points of a group, read once: that takes as long as many requests."""
    return sorted(entry_points(group=group), key=lambda point: (point.name, point.value))


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

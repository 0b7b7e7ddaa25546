"""Methods, and functions of an object, that are computed once: as :mod:`.cached_property` does it for attributes.

The values are in the ``__dict__`` of the object: ``functools.cache`` of a bound method would keep the object, with its tables,
until the garbage collector runs.
"""

from collections.abc import Callable
from functools import wraps
from operator import attrgetter
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def once(compute: F) -> F:
    """Return a method that calls ``compute`` once for equal further arguments, which are hashable and given by position."""
    name = f"{compute.__module__}.{compute.__qualname__}"

    @wraps(compute)
    def method(self: Any, *arguments: Any) -> Any:
        values = self.__dict__[name] if name in self.__dict__ else self.__dict__.setdefault(name, {})
        if arguments not in values:
            values[arguments] = compute(self, *arguments)
        return values[arguments]

    return cast("F", method)


def once_by(attribute: str) -> Callable[[F], F]:
    """Declare a method of one argument, such as a view, that is computed once for equal values of this attribute of it."""
    key_of = attrgetter(attribute)

    def declare(compute: F) -> F:
        name = f"{compute.__module__}.{compute.__qualname__}"

        @wraps(compute)
        def method(self: Any, argument: Any) -> Any:
            values = self.__dict__[name] if name in self.__dict__ else self.__dict__.setdefault(name, {})
            key = key_of(argument)
            if key not in values:
                values[key] = compute(self, argument)
            return values[key]

        return cast("F", method)

    return declare


def once_while(*attributes: str, by: str = "") -> Callable[[F], F]:
    """Declare a method that is computed once for equal arguments as long as these attributes of its object are equal.

    ``by``: the attribute of its only argument that identifies it.
    """
    state_of, key_of = attrgetter(*attributes), attrgetter(by) if by else None

    def declare(compute: F) -> F:
        name = f"{compute.__module__}.{compute.__qualname__}"

        @wraps(compute)
        def method(self: Any, *arguments: Any) -> Any:
            state, known = state_of(self), self.__dict__.get(name)
            if known is None or known[0] != state:
                known = self.__dict__[name] = (state, {})
            values, key = known[1], key_of(*arguments) if key_of is not None else arguments
            if key not in values:
                values[key] = compute(self, *arguments)
            return values[key]

        return cast("F", method)

    return declare

"""What is wrong with a class of plugins, found when it is registered: unknown hooks, wrong signatures, missing declarations."""

import difflib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from volcanopy.scheduler.policy import plugin as contract
from volcanopy.scheduler.policy.combine import rejections
from volcanopy.scheduler.policy.hook_table import HOOKS, declaration

_CONTRACT = contract.__name__.rpartition(".")[0] + "."
"""Classes of modules below this package declare what a plugin may implement."""
_BUILTIN = "volcanopy.scheduler."


class PluginError(ValueError):
    """A plugin violates the contract; the message names the plugin and the hook."""


def faults(kind: Any) -> Iterator[str]:
    """Yield what is wrong with a class of plugins, one sentence each."""
    is_class = isinstance(kind, type)
    if not is_class or not issubclass(kind, contract.Plugin):
        shown = f"the class {kind.__qualname__}" if is_class else f"an object of type {type(kind).__qualname__}"
        yield f"is {shown}, not a subclass of volcanopy.plugin.Plugin"
        return
    if not isinstance(getattr(kind, "name", None), str):
        yield "has no name: set the class attribute name to the name in the configuration file"
    arguments = kind.arguments
    if not (isinstance(arguments, type) and issubclass(arguments, contract.Arguments)):
        yield f"declares {arguments!r} as its arguments: declare a subclass of volcanopy.plugin.Arguments"
    yield from _unknown_names(kind)
    for declaring in _declaring(kind):
        for name, declared in vars(declaring).items():
            if name[0] != "_" and inspect.isfunction(declared) and getattr(kind, name) is not declared:
                yield from _wrong_method(kind, name, declared)


def _declaring(kind: Any) -> list[type]:
    """Return the base classes with the contract: that of all plugins, and the roles."""
    return [base for base in kind.__mro__ if base.__module__.startswith(_CONTRACT)]


def require_valid(kind: Any) -> None:
    """Raise PluginError unless a class of plugins has no faults."""
    first = next(faults(kind), None)
    if first is not None:
        raise PluginError(f"plugin {getattr(kind, 'name', None) or getattr(kind, '__name__', kind)!r} {first}")


def _unknown_names(kind: Any) -> Iterator[str]:
    """Yield public methods that the contract does not declare, and attributes whose names resemble its names.

    Built-in plugins are left out: they may have public methods for the engine.
    """
    declaring = _declaring(kind)
    known = {name for base in declaring for name in vars(base) if name[0] != "_"}
    for base in kind.__mro__:
        if base.__module__.startswith(_BUILTIN) or not issubclass(base, contract.Plugin):
            continue
        for name, value in vars(base).items():
            if name[0] == "_" or name in known:
                continue
            is_method = inspect.isfunction(value) or isinstance(value, staticmethod | classmethod)
            close = difflib.get_close_matches(name, sorted(known | HOOKS.keys()), n=1, cutoff=0.8)
            if name in HOOKS:
                role = declaration(name).__qualname__.partition(".")[0]
                yield f'has the hook "{name}" of the role {role}: inherit from {role} too'
            elif close:
                yield f'has the unknown {"hook" if is_method else "attribute"} "{name}"; did you mean "{close[0]}"?'
            elif is_method:
                yield f'has the unknown hook "{name}": name a method that is no hook "_{name}"'


def _wrong_method(kind: Any, name: str, declared: Any) -> Iterator[str]:
    method = inspect.getattr_static(kind, name)
    if isinstance(method, staticmethod | classmethod):
        method = method.__func__
        given: list[str] = []
    else:
        given = ["self"]
    if not callable(method):
        yield f'has the hook "{name}", which is {method!r}: it must be a method'
        return
    is_iterated = name in HOOKS and HOOKS[name].rule is rejections
    if inspect.iscoroutinefunction(method) or (not is_iterated and inspect.isgeneratorfunction(method)):
        yield f'has the hook "{name}", which must return its result: use neither async nor yield'
    expected = list(inspect.signature(declared).parameters)[1:]
    if not _accepts(method, [*given, *expected]):
        yield f'has the hook "{name}", which must accept the arguments ({", ".join(expected)}) by position'


def _accepts(method: Callable[..., Any], names: list[str]) -> bool:
    try:
        inspect.signature(method).bind(*names)
    except TypeError:
        return False
    return True

"""Regular expressions that users write, matched in time linear in the text (RE2, the syntax of Go and of Volcano).

The engine of the standard library backtracks: an expression such as ``^(([a-z0-9-])+)+Z$`` takes longer than the universe on
an ordinary node name, and keeps the interpreter's lock meanwhile, so one HyperNode would stop the process.
"""

from collections.abc import Callable
from functools import lru_cache

import re2

MAX_LENGTH = 1000
"""Longest expression, in characters."""
_MEMORY = 2**20
"""Bytes for the compiled expression: larger ones are rejected."""


class PatternError(ValueError):
    """A text that is not a regular expression, or one that is too large."""


@lru_cache(maxsize=1024)
def searcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that returns whether an expression matches anywhere in a text. Raises PatternError."""
    if len(pattern) > MAX_LENGTH:
        raise PatternError(f"must have at most {MAX_LENGTH} characters, has {len(pattern)}")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        search = re2.compile(pattern, options).search
    except re2.error as error:
        raise PatternError(_message(error)) from None
    except UnicodeEncodeError:
        raise PatternError("must be Unicode text") from None

    def matches(text: str) -> bool:
        return search(text) is not None

    return matches


def _message(error: Exception) -> str:
    message = error.args[0] if error.args else error
    return message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)

"""The port through which the plugin ``extender`` asks a program outside.

The scheduler does no I/O. The process that runs cycles passes a port that asks over HTTP; a replay of a dump and a
question about what would happen pass none, and the plugin then has no opinion.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Answer:
    """The body of an answer, or why there is none; ``down`` if further questions would fail in the same way."""

    body: bytes | None = None
    error: str = ""
    down: bool = False


class Extender(Protocol):
    """Asks a program outside."""

    def ask(self, url: str, timeout: float, requests: Sequence[bytes]) -> Sequence[Answer]:
        """Return the answer to each request, a JSON body, in order; they may be asked at once. Never raises for a failed request.

        ``timeout`` is that of each request in seconds.
        """

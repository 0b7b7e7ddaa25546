"""The port through which the plugin ``extender`` asks a program outside.

The scheduler does no I/O. The process that runs cycles passes a port that asks over HTTP; a replay passes one with the answers
that a dump has recorded; a question about what would happen passes none, and the plugin then has no opinion.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class ExtenderRequest:
    """A question: its JSON body, and a short name that is unique among the questions of one verb on one state."""

    subject: str
    body: bytes


@dataclass(frozen=True)
class Answer:
    """The body of an answer, or why there is none; ``down`` if further questions would fail in the same way.

    Without a body and without an error, the answer is not known: it was not recorded.
    """

    body: bytes | None = None
    error: str = ""
    down: bool = False


class Extender(Protocol):
    """Asks a program outside."""

    def ask(self, url: str, timeout: float, requests: Sequence[ExtenderRequest]) -> Sequence[Answer]:
        """Return the answer to each request, in order; they may be asked at once. Never raises for a failed request.

        ``timeout`` is that of each request in seconds.
        """
        ...

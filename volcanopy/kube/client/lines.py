"""Splitting of a stream into lines."""


class Lines:
    """Splits a stream of chunks into whole lines of any length, without copying a part twice."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> bytes:
        """Return the lines that this chunk completes, each with its newline; empty when it completes none."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._rest.append(chunk)
            return b""
        whole = b"".join((*self._rest, chunk[:end])) if self._rest else chunk[:end]
        self._rest = [chunk[end:]] if end < len(chunk) else []
        return whole

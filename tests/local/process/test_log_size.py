"""The log of a program that prints for ever is read in pieces of bounded size."""

import asyncio
import threading
from pathlib import Path

import pytest

from volcanopy_local.process import container_logs

LINE = b"2030-01-01T00:00:00.000000Z line %03d\n"
SHOWN = b"line %03d\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of a hundred lines."""
    path = tmp_path / "log"
    path.write_bytes(b"".join(LINE % number for number in range(100)))
    return path


def test_the_last_whole_lines_of_a_large_log_are_read(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(LINE % 0)
    assert container_logs.read(log, {}, 0.0, 100 * size) == b"".join(SHOWN % number for number in range(100))
    monkeypatch.setattr(container_logs, "MOST_BYTES", 5 * size + 3)
    assert container_logs.read(log, {}, 0.0, 100 * size) == b"".join(SHOWN % number for number in range(95, 100))
    assert container_logs.read(log, {}, 0.0, 10 * size) == b"".join(SHOWN % number for number in range(5, 10))
    assert container_logs.read(log.with_name("none"), {}, 0.0, size) == b""


class EndedRun:
    """A program whose output is closed."""

    output_closed = True

    def next_output(self) -> None:
        """Nothing comes."""


async def test_a_log_that_is_followed_is_read_in_pieces(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_logs, "PIECE", 10 * len(LINE % 0) - 1)
    pieces = container_logs.follow(log, 100 * len(LINE % 0), {}, EndedRun())  # type: ignore[arg-type]
    assert (await anext(pieces)).count(b"\n") == 100
    with log.open("ab") as file:
        file.writelines(LINE % number for number in range(100, 200))
    assert [piece.count(b"\n") async for piece in pieces] == [10] * 10


async def test_other_requests_are_answered_while_a_log_is_read(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr(container_logs, "read", lambda *_: b"log" if answered.wait(20) else b"the event loop waits")
    reading = asyncio.ensure_future(anext(container_logs.follow(log, 9, {}, None)))
    asyncio.get_running_loop().call_soon(answered.set)
    assert await reading == b"log"

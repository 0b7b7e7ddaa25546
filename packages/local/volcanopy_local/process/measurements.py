"""What processes of this machine use, from the file system /proc."""

import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Usage:
    """What processes have used: seconds of cpu so far, and bytes of memory now."""

    cpu: float = 0.0
    memory: int = 0


def descendants(pid: int) -> Iterator[int]:
    """The pids below a process, whichever of its threads has started them."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for thread in threads:
        try:
            children = Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
        except OSError:
            continue
        for child in map(int, children):
            yield child
            yield from descendants(child)


def handles(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    return bool(int(status.partition("SigCgt:")[2].split(maxsplit=1)[0], 16) >> (number - 1) & 1)


def used_by(pids: Iterable[int]) -> Usage:
    """The sum over processes: cpu with that of their ended children, and memory with a part of what they share."""
    cpu, memory = 0.0, 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            memory += _memory(pid)
        except OSError:
            continue
        cpu += sum(map(int, fields[11:15])) / _TICK
    return Usage(cpu, memory)


def _memory(pid: int) -> int:
    """The proportional set size of a process, or its resident memory where the kernel does not report that."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_bytes().splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    except PermissionError:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE
    return 0

"""The embedded cluster's memory across restarts: a log of changes in one file, enough to survive a kill at any moment.

Every change is one line with a checksum. It is handed to the operating system before the change takes effect and before the
client is answered, so what was acknowledged survives the process; a change that cannot be written is rejected. Only with
``fsync`` is every line forced to the disk: without it, a power cut or a crash of the operating system can lose the last
changes. An incomplete last line is dropped. The log is rewritten at start and when it has outgrown the objects.

Format 2: ``JSON TAB CRC-32 NEWLINE``; the first line is ``["=",version,2]``.
"""

import contextlib
import os
import shutil
import sys
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from embedded_apiserver.status_errors import ApiError
from embedded_apiserver.store.object_store import Bucket, Event, Store, decode

FORMAT = 2
REWRITE_FACTOR = 4
"""The log is rewritten when it is this many times larger than the objects in it (and at least REWRITE_FLOOR bytes)."""
REWRITE_FLOOR = 16 * 1024 * 1024
_MODE = 0o600


class JournalError(ValueError):
    """The file is not a journal of this server, is in use, or is damaged before its end."""


class Journal:
    """The file behind a store. Made by `open_journal`."""

    def __init__(self, path: Path, store: Store, *, fsync: bool = False) -> None:
        self.path = path
        self._store, self._fsync = store, fsync
        self._file = self._lock = -1
        self._size = self._floor = 0

    def load(self, *, repair: bool = False) -> None:
        """Fill the store from the file, then rewrite it without its history and follow the store from here.

        Raises JournalError; with ``repair`` everything before the first damaged record is kept, and the file is copied.
        """
        self._lock = _locked(self.path)
        try:
            if self.path.exists():
                with self.path.open("rb") as file:
                    if (start := file.read(2)) and start != b'["':
                        raise JournalError(
                            f"{self.path} is not a journal of this server: it is left as it is, choose another file"
                        )
                    file.seek(0)
                    self._replay(file, repair)
            self._rewrite()
        except BaseException:
            self.close()
            raise
        self._store.journal = self.record

    def record(self, bucket: Bucket, event: Event) -> None:
        """Write one change down. Raises ApiError (507) if that fails; the file is then as before."""
        self.compact()
        entry = event.entry
        if event.type == "DELETED":
            key = msgspec.json.encode([bucket.name, entry.namespace, entry.name])
            line = _line(b'["-",%d,%b]' % (event.version, key))
        else:
            line = _line(b'["+",%d,"%b",%b]' % (event.version, bucket.name.encode(), entry.raw))
        try:
            _write(self._file, line)
            if self._fsync:
                os.fsync(self._file)
        except OSError as error:
            # What was written of the line must not be followed by another one.
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise _not_stored(self.path, error) from None
        self._size += len(line)

    def compact(self) -> None:
        """Rewrite the file if it has outgrown the objects; if the disk has no space for that, it grows on."""
        if self._size > self._floor:
            try:
                self._rewrite()
            except OSError:
                self._floor = self._size * 2

    def close(self) -> None:
        """Stop following; the file stays complete."""
        self._store.journal = None
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1

    def _replay(self, file: BinaryIO, repair: bool) -> None:
        """Read the records once to find the last of each object, and again to restore these: memory has one at a time."""
        offsets: dict[tuple[str, str, str], int] = {}
        offset = 0
        for line in file:
            if not line.endswith(b"\n"):
                break  # it was being written when the process ended, and was never acknowledged
            try:
                record = _record(line[:-1])
                if record[0] == "=" and record[2] > FORMAT:
                    raise JournalError(f"{self.path} has format {record[2]}, which a later version has written")
                self._apply(record, offset, offsets)
            except (msgspec.DecodeError, LookupError, TypeError, ValueError, UnicodeDecodeError) as error:
                if isinstance(error, JournalError):
                    raise
                if not repair:
                    raise JournalError(
                        f"{self.path}: the record at byte {offset} is damaged ({error}): "
                        "--repair keeps everything before it, and a copy of the file"
                    ) from None
                shutil.copy2(self.path, _spare(self.path))
                break
            offset += len(line)
        for (bucket, _, _), offset in offsets.items():
            file.seek(offset)
            self._store.restore(self._store.bucket(bucket), _record(file.readline()[:-1])[3])
        self._store.base = self._store.version
        for restored in self._store.buckets.values():
            restored.compacted = self._store.base

    def _apply(self, record: list[Any], offset: int, offsets: dict[tuple[str, str, str], int]) -> None:
        mark, version = record[0], record[1]
        if mark == "+":
            metadata = record[3]["metadata"]
            _ = int(metadata["resourceVersion"]), metadata["uid"]  # what the store needs
            offsets[record[2], metadata.get("namespace", ""), metadata["name"]] = offset
        elif mark == "-":
            offsets.pop(tuple(record[2]), None)
        elif mark != "=":
            raise ValueError(f"unknown mark {mark!r}")
        self._store.version = max(self._store.version, int(version))

    def _rewrite(self) -> None:
        fresh = self.path.with_name(self.path.name + ".new")
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, _MODE)
        try:
            size = _write(descriptor, _line(b'["=",%d,%d]' % (self._store.version, FORMAT)))
            for bucket in self._store.buckets.values():
                name = bucket.name.encode()
                for entry in bucket.entries():
                    size += _write(descriptor, _line(b'["+",%d,"%b",%b]' % (entry.version, name, entry.raw)))
            os.fsync(descriptor)
            fresh.replace(self.path)
        except BaseException:
            os.close(descriptor)
            fresh.unlink(missing_ok=True)
            raise
        if self._file >= 0:
            os.close(self._file)
        self._file, self._size = descriptor, size
        self._floor = max(REWRITE_FLOOR, size * REWRITE_FACTOR)


def open_journal(path: Path, store: Store, *, repair: bool = False, fsync: bool = False) -> Journal:
    """Fill an empty store from the file, if it exists, and keep the file up to date from now on.

    Raises JournalError, OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    journal = Journal(path, store, fsync=fsync)
    journal.load(repair=repair)
    return journal


def _line(json: bytes) -> bytes:
    return b"%b\t%08x\n" % (json, zlib.crc32(json))


def _record(line: bytes) -> list[Any]:
    json, tab, checksum = line.partition(b"\t")
    if not tab:
        raise ValueError("no checksum")
    if int(checksum, 16) != zlib.crc32(json):
        raise ValueError("wrong checksum")
    record = decode(json)
    if not isinstance(record, list):
        raise TypeError("not a change of this server")
    return record


def _write(descriptor: int, data: bytes) -> int:
    """Write all bytes: one call may write a part of them when the disk is nearly full."""
    written = 0
    while written < len(data):
        written += os.write(descriptor, data[written:])
    return written


def _locked(path: Path) -> int:
    """Lock a file beside the journal, which is itself replaced. Raises JournalError if another server has it."""
    beside = path.with_name(path.name + ".lock")
    descriptor = os.open(beside, os.O_RDWR | os.O_CREAT, _MODE)
    try:
        if sys.platform == "win32":
            import msvcrt  # noqa: PLC0415 - exists there only

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl  # noqa: PLC0415 - exists elsewhere only

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise JournalError(f"{path} is in use by another server: stop it, or choose another file") from None
    return descriptor


def _spare(path: Path) -> Path:
    """Return a free name for the copy of a damaged file."""
    number = 1
    while (spare := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return spare


def _not_stored(path: Path, error: OSError) -> ApiError:
    message = f"the change is not stored and has no effect: cannot write {path}: {os.strerror(error.errno or 0)}"
    return ApiError(507, "InsufficientStorage", message)

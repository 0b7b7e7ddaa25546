"""The embedded cluster's memory across restarts: a log of changes in one file, enough to survive a kill at any moment.

Every change is one line, handed to the operating system before the client is answered. Nothing is forced to the disk,
so a power cut can lose changes. An incomplete last line is dropped; the log is rewritten at start and when it has
outgrown the objects.
"""

import os
from pathlib import Path

import msgspec

from volcanopy.local.apiserver.store.object_store import Bucket, Event, Store, decode

REWRITE_FACTOR = 4
"""The log is rewritten when it is this many times larger than the objects in it (and at least REWRITE_FLOOR bytes)."""
REWRITE_FLOOR = 16 * 1024 * 1024


class JournalError(ValueError):
    """The file is not a journal of this server, or is damaged before its end."""


class Journal:
    """The file behind a store. Made by `open_journal`."""

    def __init__(self, path: Path, store: Store) -> None:
        self.path = path
        self._store = store
        self._file = -1
        self._size = 0
        self._floor = 0

    def load(self) -> None:
        """Fill the store from the file, then rewrite it without its history and follow the store from here."""
        if self.path.exists():
            data = self.path.read_bytes()
            if data and not data.startswith(b'["'):
                raise JournalError(
                    f"{self.path} is not a journal of this server: it is left as it is, choose another file"
                )
            self._replay(data)
        self._rewrite()
        self._store.listeners.append(self.record)

    def record(self, bucket: Bucket, event: Event) -> None:
        """Write one change down."""
        entry = event.entry
        if event.type == "DELETED":
            key = msgspec.json.encode([bucket.name, entry.namespace, entry.name])
            line = b'["-",%d,%b]\n' % (event.version, key)
        else:
            line = b'["+",%d,"%b",%b]\n' % (event.version, bucket.name.encode(), entry.raw)
        os.write(self._file, line)
        self._size += len(line)
        if self._size > self._floor:
            self._rewrite()

    def close(self) -> None:
        """Stop following; the file stays complete."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _replay(self, data: bytes) -> None:
        lines = data.split(b"\n")
        bodies: dict[tuple[str, str, str], dict[str, object]] = {}
        # What follows the last newline was being written when the process ended: it was never acknowledged.
        for number, line in enumerate(lines[:-1], 1):
            try:
                record = decode(line)
                mark, version = record[0], record[1]
                if mark == "+":
                    metadata = record[3]["metadata"]
                    bodies[record[2], metadata.get("namespace", ""), metadata["name"]] = record[3]
                elif mark == "-":
                    bodies.pop(tuple(record[2]), None)
                self._store.version = max(self._store.version, version)
            except (msgspec.DecodeError, LookupError, TypeError) as error:
                raise JournalError(
                    f"{self.path}: line {number} is not a change of this server ({error}): move the file away to start empty"
                ) from error
        for (bucket, _, _), body in bodies.items():
            self._store.restore(self._store.bucket(bucket), body)
        self._store.base = self._store.version
        for restored in self._store.buckets.values():
            restored.compacted = self._store.base

    def _rewrite(self) -> None:
        self.close()
        fresh = self.path.with_name(self.path.name + ".new")
        with fresh.open("wb") as file:
            file.write(b'["=",%d]\n' % self._store.version)
            for bucket in self._store.buckets.values():
                name = bucket.name.encode()
                for entry in bucket.entries():
                    file.write(b'["+",%d,"%b",%b]\n' % (entry.version, name, entry.raw))
            self._size = file.tell()
        fresh.replace(self.path)
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        self._floor = max(REWRITE_FLOOR, self._size * REWRITE_FACTOR)


def open_journal(path: Path, store: Store) -> Journal:
    """Fill an empty store from the file, if it exists, and keep the file up to date from now on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    journal = Journal(path, store)
    journal.load()
    return journal

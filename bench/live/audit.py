"""The API server's audit log: which requests there were, and when the first pod was created and the last one bound."""

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
- level: None
  resources: [{group: coordination.k8s.io}]
- level: Metadata
"""
"""Writes are logged, without their bodies; Leases are left out."""


def added(log: Path, at: int) -> tuple[list[dict[str, Any]], int]:
    """Return the entries of the log after this many bytes, and the bytes up to the last whole one."""
    with log.open("rb") as file:
        file.seek(at)
        content = file.read()
    whole = content.rfind(b"\n") + 1
    return [json.loads(line) for line in content[:whole].splitlines()], at + whole


@dataclass
class Accounts:
    """The writes from some point of the log on, read further with :meth:`read`."""

    log: Path
    namespace: str
    at: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    """By ``user: verb resource``; a rejected one ends with its status."""
    bound: int = 0
    first: float = 0.0
    """When the first request of the namespace was received, in seconds since the epoch."""
    last: float = 0.0
    """When the last bind was answered."""

    def read(self) -> None:
        """Count the lines that were added."""
        entries, self.at = added(self.log, self.at)
        for entry in entries:
            self._count(entry)

    def _count(self, entry: dict[str, Any]) -> None:
        target = entry.get("objectRef") or {}
        if target.get("namespace", self.namespace) != self.namespace:
            return
        resource = "/".join(filter(None, (target.get("resource"), target.get("subresource"))))
        code = (entry.get("responseStatus") or {}).get("code", 0)
        user = entry["user"]["username"].rpartition(":")[2]
        self.requests[f"{user}: {entry['verb']} {resource}" + (f" {code}" if code >= 400 else "")] += 1
        if target.get("namespace") == self.namespace and code < 400:
            self.first = self.first or _seconds(entry["requestReceivedTimestamp"])
            if resource == "pods/binding":
                self.bound += 1
                self.last = _seconds(entry["stageTimestamp"])


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()

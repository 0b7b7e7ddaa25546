"""What a job of equal pods is made of, and which logs are read, as values."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

RestartOption = StrEnum("RestartOption", {"Never": "Never", "OnFailure": "OnFailure"})
"""Restart policies of containers."""


@dataclass(frozen=True)
class JobOptions:
    """Fields of a job of equal pods; resources, variables, labels and annotations are ``name=value`` texts."""

    image: str = ""
    arguments: list[str] | None = None
    name: str = ""
    replicas: int = 1
    minimum: int | None = None
    script: Path | None = None
    array: str = ""
    here: bool = False
    directory: str = ""
    cpu: str = "1"
    memory: str = "100Mi"
    cpu_limit: str | None = None
    memory_limit: str | None = None
    gpus: int = 0
    resource: list[str] | None = None
    queue: str = ""
    priority_class: str = ""
    task: str = "main"
    env: list[str] | None = None
    label: list[str] | None = None
    annotation: list[str] | None = None
    plugin: list[str] | None = None
    restart: RestartOption | None = None
    max_retry: int | None = None
    ttl: str | None = None
    deadline: str | None = None
    grace_period: str | None = None
    estimate: str = ""
    follow: bool = False
    interactive: bool = False


@dataclass(frozen=True)
class LogOptions:
    """Selection and format of logs."""

    follow: bool = False
    task: str = ""
    index: int | None = None
    container: str = ""
    all_containers: bool = False
    previous: bool = False
    tail: int | None = None
    since: str = ""
    timestamps: bool = False
    prefix: bool | None = None

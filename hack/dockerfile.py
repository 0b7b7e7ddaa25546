"""Parser for the instructions that our Dockerfile uses; all others are errors."""

import fnmatch
import json
import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

PLAIN = {"RUN", "WORKDIR", "USER"}


class DockerfileError(ValueError):
    """An instruction is not supported; the message has its line."""


@dataclass(frozen=True)
class Step:
    """An instruction; ``source`` is the stage from which a COPY reads, empty for the context."""

    kind: str
    arguments: tuple[str, ...]
    source: str = ""


@dataclass
class Stage:
    """A stage: a base image and steps."""

    base: str
    name: str
    steps: list[Step] = field(default_factory=list)
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """Variables set by ENV."""
        return dict(step.arguments for step in self.steps if step.kind == "ENV")  # type: ignore[misc]

    @property
    def user(self) -> str:
        """User of the program."""
        return next((step.arguments[0] for step in reversed(self.steps) if step.kind == "USER"), "root")


def parse(text: str) -> list[Stage]:
    """Return the stages of a Dockerfile, the image last. Raises DockerfileError."""
    stages: list[Stage] = []
    defaults: dict[str, str] = {}
    for number, line in _lines(text):
        kind, _, rest = line.partition(" ")
        if kind == "ARG" and not stages and rest.count("=") == 1:
            key, _, value = rest.partition("=")
            defaults[key] = value
            continue
        if kind == "FROM":
            base, *named = Template(rest).substitute(defaults).split()
            stages.append(Stage(base, named[1] if len(named) == 2 and named[0] == "AS" else ""))
            continue
        if not stages:
            raise DockerfileError(f"line {number}: {kind} before FROM")
        stage = stages[-1]
        if kind in PLAIN:
            stage.steps.append(Step(kind, (rest,)))
        elif kind == "ENV" and rest.count("=") == 1:
            key, _, value = rest.partition("=")
            stage.steps.append(Step(kind, (key, value)))
        elif kind == "COPY":
            arguments = shlex.split(rest)
            source = arguments.pop(0).removeprefix("--from=") if arguments[0].startswith("--from=") else ""
            if len(arguments) < 2 or any(argument.startswith("--") for argument in arguments):
                raise DockerfileError(f"line {number}: {line}: only COPY [--from=STAGE] FROM... TO is supported")
            stage.steps.append(Step(kind, tuple(arguments), source))
        elif kind in {"ENTRYPOINT", "CMD"}:
            setattr(stage, "entrypoint" if kind == "ENTRYPOINT" else "command", tuple(json.loads(rest)))
        else:
            raise DockerfileError(f"line {number}: {line}: not supported by hack/dockerfile.py")
    return stages


def sent(folder: Path, rules: Iterable[str]) -> list[Path]:
    """Return the files of a folder that .dockerignore does not exclude, relative to it; the last matching rule counts."""
    known = [rule.strip() for rule in rules if rule.strip() and not rule.startswith("#")]
    included = [rule.removeprefix("!") for rule in known if rule.startswith("!")]
    result = []
    for top, folders, names in os.walk(folder):
        here = Path(top).relative_to(folder)
        result += [
            here / name for name in names if (folder / here / name).is_file() and not _ignored(here / name, known)
        ]
        folders[:] = [
            name
            for name in folders
            if not _ignored(here / name, known)
            or any(f"{rule}/".startswith(("**/", f"{here / name}/")) for rule in included)
        ]
    return sorted(result)


def _ignored(path: Path, rules: Iterable[str]) -> bool:
    ignored = False
    for rule in rules:
        pattern = rule.removeprefix("!").removeprefix("**/").rstrip("/")
        # A rule for a folder includes its content; a rule with ** matches at any depth.
        parts = path.parts if rule.startswith("**/") else [str(path), *map(str, path.parents)]
        if any(fnmatch.fnmatchcase(part, pattern) for part in parts if part != "."):
            ignored = not rule.startswith("!")
    return ignored


def _lines(text: str) -> Iterable[tuple[int, str]]:
    joined, began = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        began = began or number
        if line.endswith("\\"):
            joined += line[:-1]
            continue
        yield began, joined + line
        joined, began = "", 0

"""The instructions of our Dockerfile, as values: as much of the format as it uses, and nothing read over in silence."""

import fnmatch
import json
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

PLAIN = {"RUN", "WORKDIR", "USER"}


class DockerfileError(ValueError):
    """An instruction that is not understood; says which and where."""


@dataclass(frozen=True)
class Step:
    """One instruction that does something. ``source`` is the stage that a COPY takes from, if it is not the context."""

    kind: str
    words: tuple[str, ...]
    source: str = ""


@dataclass
class Stage:
    """A root that is made: from ``base``, by steps."""

    base: str
    name: str
    steps: list[Step] = field(default_factory=list)
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """What ENV says, in the end."""
        return dict(step.words for step in self.steps if step.kind == "ENV")  # type: ignore[misc]

    @property
    def user(self) -> str:
        """Who the program runs as, in the end."""
        return next((step.words[0] for step in reversed(self.steps) if step.kind == "USER"), "root")


def parse(text: str) -> list[Stage]:
    """The stages of a Dockerfile, the image last. Raises DockerfileError."""
    stages: list[Stage] = []
    for number, line in _lines(text):
        kind, _, rest = line.partition(" ")
        if kind == "FROM":
            base, *named = rest.split()
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
            words = shlex.split(rest)
            source = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else ""
            if len(words) < 2 or any(word.startswith("--") for word in words):
                raise DockerfileError(f"line {number}: {line}: only COPY [--from=STAGE] FROM... TO is known here")
            stage.steps.append(Step(kind, tuple(words), source))
        elif kind in {"ENTRYPOINT", "CMD"}:
            words = json.loads(rest)
            setattr(stage, "entrypoint" if kind == "ENTRYPOINT" else "command", tuple(words))
        else:
            raise DockerfileError(f"line {number}: {line}: this form is not known here; teach hack/dockerfile.py")
    return stages


def sent(folder: Path, rules: Iterable[str]) -> list[Path]:
    """The files of a folder that .dockerignore's lines let into the build, relative to it; the last rule that fits counts."""
    known = [rule.strip() for rule in rules if rule.strip() and not rule.startswith("#")]
    found = []
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and not _ignored(relative, known):
            found.append(relative)
    return found


def _ignored(path: Path, rules: Iterable[str]) -> bool:
    ignored = False
    for rule in rules:
        pattern = rule.removeprefix("!").removeprefix("**/").rstrip("/")
        # A rule for a folder is one for all that is in it; one with ** in front fits at every depth.
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

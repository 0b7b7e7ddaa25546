"""A reader who types what a page says: a scratch folder, a shell, and a cluster that the page itself started, or one of ours."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.docs.pages import ROOT, Block, commands, like
from volcanopy.admission import policy
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.framework.config import parse

PATIENCE = 60.0
"""Seconds that a command may take."""
SETTLED = 20.0
"""Seconds until what a page shows must be there."""
LOOKS = ("volcanopy job list", "volcanopy queue list", "volcanopy queue tree", "volcanopy explain", "kubectl get")
"""How commands begin that change nothing."""
COMPLAINTS = ("error:", "volcanopy: ")
"""How what kubectl and volcanopy print begins when they may have failed."""


class Reader:
    """Somebody who follows a page from its top to its end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("examples", "docs", "charts"):
            (folder / name).symlink_to(ROOT / name)
        (folder / ".venv").symlink_to(sys.prefix)
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "KUBECONFIG": str(folder / "volcanopy.kubeconfig"),
            "HOME": str(folder),
            "NO_COLOR": "1",
            "COLUMNS": "200",
        }
        self._background: list[subprocess.Popen[str]] = []

    def follow(self, block: Block) -> None:
        """Do what a block says."""
        match block.language:
            case "sh" if "background" in block.words:
                self.start(block.text)
            case "sh":
                self.run(block.text, str(block))
            case "console":
                for command, shown in commands(block.text):
                    printed = self.look(command, shown, str(block))
                    assert not shown.strip() or like(shown, printed), (
                        f"{block}: {command}\n--- the page shows\n{shown}--- printed\n{printed}"
                    )
            case "python":
                self.run_python(block.text, str(block))
            case "yaml":
                self.take(block)

    def look(self, command: str, shown: str, place: str) -> str:
        """What a command prints; one that only looks is asked again for a while, since statuses are written a little late."""
        until = time.monotonic() + (SETTLED if command.startswith(LOOKS) else 0.0)
        while True:
            printed = self.run(command, place, fails=shown.startswith(COMPLAINTS))
            if like(shown, printed) or not shown.strip() or time.monotonic() >= until:
                return printed
            time.sleep(0.5)

    def run(self, command: str, place: str, *, fails: bool = False) -> str:
        """Run a command in a shell; what it printed, on both streams."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            text=True,
            check=False,
        )
        assert fails or done.returncode == 0, f"{place}: {command}\nends with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def run_python(self, program: str, place: str) -> None:
        """Run a program in an interpreter of its own."""
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            timeout=PATIENCE,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{place}: ends with {done.returncode}:\n{done.stderr}"

    def start(self, command: str) -> None:
        """Start what stays: it has begun when it has printed where it is reached."""
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._background.append(process)
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            if "http" in line:
                return
        raise AssertionError(f"{command} ended before it was ready:\n{''.join(said)}")

    def take(self, block: Block) -> None:
        """Let the one for whom a piece of YAML is meant read it."""
        if "part" in block.words or "values" in block.words:
            assert list(yaml.safe_load_all(block.text)), block
        elif "scheduler" in block.words:
            parse(block.text, builtin())
        elif "policy" in block.words:
            policy.parse(block.text)
        else:
            for document in yaml.safe_load_all(block.text):
                assert isinstance(document, dict), f"{block}: a manifest is a mapping"
                assert document.get("kind"), f"{block}: what is it? Name its kind, or say what the block is"
            (self.folder / "block.yaml").write_text(block.text)
            verb = "create" if "generateName:" in block.text else "apply"
            self.run(f"kubectl {verb} -f block.yaml", str(block))

    def end(self) -> None:
        """Stop what was started."""
        for process in self._background:
            process.send_signal(signal.SIGINT)
        for process in self._background:
            process.communicate(timeout=PATIENCE)


@contextmanager
def reader(folder: Path) -> Iterator[Reader]:
    """A reader, whose processes end with the page."""
    one = Reader(folder)
    try:
        yield one
    finally:
        one.end()


def needs_cluster(found: list[Block]) -> bool:
    """Whether a page speaks to a cluster that it does not start itself."""
    starts = any(block.language == "sh" and "background" in block.words for block in found)
    plain: set[Any] = {"scheduler", "policy", "values", "part"}
    asks = any(
        (block.language == "yaml" and not plain & set(block.words)) or block.language in {"console", "sh"}
        for block in found
    )
    return asks and not starts

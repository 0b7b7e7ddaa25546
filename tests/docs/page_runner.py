"""Runs the blocks of a page: in a scratch folder and a shell, on a cluster that the page or the test starts."""

import json
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
from volcanopy.admission import context as policy
from volcanopy.scheduler.policy.config import parse
from volcanopy_testing.notation import all_policies

COMMAND_TIMEOUT = 120.0
"""Seconds that a command may take."""
OUTPUT_TIMEOUT = 60.0
"""Seconds after which a read-only command must print what the page shows."""
READ_ONLY = ("volcanopy job list", "volcanopy queue list", "volcanopy queue tree", "volcanopy explain", "kubectl get")
"""Beginnings of commands that change nothing."""
ERROR_PREFIXES = ("error:", "volcanopy: ")
"""Beginnings of the output of kubectl and volcanopy if they have failed."""


class Reader:
    """Runs the blocks of a page from top to bottom."""

    def __init__(self, folder: Path, kubectl: Path | None) -> None:
        self.folder = folder
        programs = [Path(sys.prefix) / "bin", os.environ["PATH"], *([kubectl.parent] if kubectl else [])]
        for name in ("examples", "docs", "charts"):
            (folder / name).symlink_to(ROOT / name)
        (folder / ".venv").symlink_to(sys.prefix)
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join(map(str, programs)),
            "KUBECONFIG": str(folder / "volcanopy.kubeconfig"),
            "HOME": str(folder),
            "NO_COLOR": "1",
            "COLUMNS": "200",
        }
        self._background: list[subprocess.Popen[str]] = []

    def follow(self, block: Block, *, remedies: bool = False) -> None:
        """Run a block; ``remedies``: apply those that it shows, too."""
        match block.language:
            case "sh" if "background" in block.words:
                self.start(block.text)
            case "sh":
                self.run(block.text, str(block))
            case "console":
                for command, shown in commands(block.text):
                    printed = self.output_of(command, shown, str(block))
                    assert not shown.strip() or like(shown, printed), (
                        f"{block}: {command}\n--- the page shows\n{shown}--- printed\n{printed}"
                    )
                    if remedies and command.startswith("volcanopy explain job") and "\nStarts with\n" in shown:
                        self.follow_remedies(command, shown, str(block))
            case "python":
                self.run_python(block.text, str(block))
            case "yaml":
                self.use(block)

    def output_of(self, command: str, shown: str, place: str) -> str:
        """Return what a command prints; a read-only one is repeated until it prints what the page shows or time is up."""
        until = time.monotonic() + (OUTPUT_TIMEOUT if command.startswith(READ_ONLY) else 0.0)
        pause = 0.5
        while True:
            printed = self.run(command, place, fails=shown.startswith(ERROR_PREFIXES))
            if like(shown, printed) or not shown.strip() or time.monotonic() >= until:
                return printed
            time.sleep(pause)
            pause = min(1.5 * pause, 2.0)  # each time starts a process

    def run(self, command: str, place: str, *, fails: bool = False) -> str:
        """Run a command in a shell and return its output on both streams."""
        process = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_TIMEOUT,
            text=True,
            check=False,
        )
        assert fails or process.returncode == 0, (
            f"{place}: {command}\nexit status {process.returncode}:\n{process.stdout}"
        )
        return process.stdout

    def follow_remedies(self, command: str, shown: str, place: str) -> None:
        """Apply each remedy that the page shows for a job to a snapshot of the cluster; the job starts."""
        name = command.split()[3]
        snapshot = json.loads(self.run("volcanopy snapshot 2>/dev/null", place))["items"]
        remedies = json.loads(self.run(f"{command} -o json", place))["remedies"]
        section = shown.partition("\nStarts with\n")[2].partition("\n\n")[0]
        listed = [line.strip() for line in section.splitlines() if line != "..."]
        assert [remedy["text"] for remedy in remedies] == listed, place
        for remedy in remedies:
            replaced = {*remedy["delete"], *map(identity, remedy["apply"])}
            items = [body for body in snapshot if identity(body) not in replaced] + remedy["apply"]
            (self.folder / "remedied.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
            printed = self.run("volcanopy plan -f remedied.json", place)
            assert f"\njob {name} starts now" in printed, f"{place}: {remedy['text']}\n{printed}"

    def run_python(self, program: str, place: str) -> None:
        """Run a program in a separate interpreter."""
        process = subprocess.run(
            [sys.executable, "-c", program],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            timeout=COMMAND_TIMEOUT,
            text=True,
            check=False,
        )
        assert process.returncode == 0, f"{place}: exit status {process.returncode}:\n{process.stderr}"

    def start(self, command: str) -> None:
        """Start a background process and wait until it prints an address."""
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
        output: list[str] = []
        for line in process.stdout:
            output.append(line)
            if "http" in line:
                return
        raise AssertionError(f"{command} ended before it was ready:\n{''.join(output)}")

    def use(self, block: Block) -> None:
        """Parse or apply a block of YAML, as its words specify."""
        if "part" in block.words or "values" in block.words:
            assert list(yaml.safe_load_all(block.text)), block
        elif "scheduler" in block.words:
            parse(block.text, all_policies())
        elif "policy" in block.words:
            policy.parse(block.text)
        else:
            for document in yaml.safe_load_all(block.text):
                assert isinstance(document, dict), f"{block}: a manifest is a mapping"
                assert document.get("kind"), f"{block}: name the kind, or mark the block as a part"
            (self.folder / "block.yaml").write_text(block.text)
            verb = "create" if "generateName:" in block.text else "apply"
            self.run(f"kubectl {verb} -f block.yaml", str(block))

    def end(self) -> None:
        """Stop the background processes."""
        for process in self._background:
            process.send_signal(signal.SIGINT)
        for process in self._background:
            process.communicate(timeout=COMMAND_TIMEOUT)


def identity(body: dict[str, Any]) -> str:
    """``Kind namespace/name`` of an object."""
    metadata = body["metadata"]
    return f"{body['kind']} {'/'.join(filter(None, (metadata.get('namespace'), metadata['name'])))}"


@contextmanager
def reader(folder: Path, kubectl: Path | None = None) -> Iterator[Reader]:
    """Yield a reader; its processes end with the page."""
    page_reader = Reader(folder, kubectl)
    try:
        yield page_reader
    finally:
        page_reader.end()


def uses_kubectl(listed: list[Block]) -> bool:
    """Return whether a page calls kubectl, or has manifests that are applied with it."""
    calls = any(block.language in {"console", "sh"} and "kubectl " in block.text for block in listed)
    return calls or any(block.language == "yaml" and not NOT_APPLIED & set(block.words) for block in listed)


NOT_APPLIED = {"scheduler", "policy", "values", "part"}
"""Words of blocks of YAML that are no manifests."""
OFFLINE = {"docs/simulate.md"}
"""Pages whose commands connect to no cluster."""


def needs_cluster(listed: list[Block]) -> bool:
    """Return whether a page needs a cluster that it does not start itself."""
    starts = any(block.language == "sh" and "background" in block.words for block in listed)
    uses = any(block.page not in OFFLINE for block in listed) and any(
        (block.language == "yaml" and not NOT_APPLIED & set(block.words)) or block.language in {"console", "sh"}
        for block in listed
    )
    return uses and not starts

"""``queue tree --watch`` draws the tree again after a change."""

import subprocess
from pathlib import Path

from tests.cli.run_commands import COMMAND, Run


def test_the_tree_is_drawn_again_when_a_queue_is_created(volcanopy: Run, kubeconfig: Path) -> None:
    words = ["queue", "tree", "--watch", "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        headings = 0
        for line in process.stdout:
            headings += line.startswith("QUEUE")
            if "capability" in line and headings == 1:  # the legend ends the first drawing
                assert volcanopy("queue", "create", "later").status == 0
            if "later" in line:
                break
        process.kill()
    assert headings >= 2
    assert volcanopy("queue", "delete", "later").status == 0

"""Draws docs/images/demo.svg, the image at the top of the README, from what the demo prints.

Run as `python -m hack.demoimage`; the output differs from run to run in times only, so it is not a part of `make golden`.
"""

import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
IMAGE = ROOT / "docs" / "images" / "demo.svg"
COLUMNS = 118


def main() -> None:
    """Run the demo and write the image."""
    recipe = re.search(r"\$\(BIN\)/volcanopy (local run .*)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert recipe is not None
    command = [sys.executable, "-m", "volcanopy", *recipe[1].split()]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    # The first line is about this machine.
    console = Console(file=StringIO(), record=True, width=COLUMNS, force_terminal=True, highlight=False)
    console.print(Text("$ make demo", style="bold"))
    for line in output.splitlines()[1:]:
        text = Text(line)
        text.highlight_words(["Completed"], "green")
        text.highlight_words(["Pending", "never starts"], "yellow")
        text.highlight_regex(r"^  starts with:", "cyan")
        console.print(text)
    svg = console.export_svg(title="volcanopy", unique_id="demo")
    # No font is loaded from another site.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    IMAGE.write_text(re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE), encoding="utf-8")


if __name__ == "__main__":
    main()

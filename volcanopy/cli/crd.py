"""``volcanopy crd``: the custom resource definitions, from the models."""

import sys
from pathlib import Path

from volcanopy.api.crd import render_crds
from volcanopy.cli.errors import CommandError


def crd(output_dir: Path | None) -> None:
    """Write a file for each kind into a folder, or all of them to standard output."""
    files = render_crds()
    if output_dir is None:
        sys.stdout.write("---\n".join(files.values()))
        return
    try:
        output_dir.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (output_dir / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--output-dir: {error.filename} cannot be written: {error.strerror}", 2) from None
    print(f"{len(files)} definitions written to {output_dir}", file=sys.stderr)

"""``volcanopy convert``: Volcano's manifests as ours, and what they could not say here."""

import sys
from pathlib import Path

import yaml

from volcanopy.cli.conversion import converted
from volcanopy.cli.errors import CommandError
from volcanopy.cli.manifests import read


def convert(files: list[str], output: Path | None, strict: bool) -> None:
    """Write what the files hold as our kinds; what is lost or left to do goes to standard error, a line each."""
    found = read(files)
    documents, told = [], 0
    for manifest in found:
        conversion = converted(manifest.body)
        if conversion.body:
            documents.append(conversion.body)
        for note in conversion.notes:
            told += 1
            print(f"{manifest.place}: {note}", file=sys.stderr)
    text = yaml.safe_dump_all(documents, sort_keys=False, width=120, allow_unicode=True)
    if output is None:
        sys.stdout.write(text)
    else:
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise CommandError(f"--output: {output} cannot be written: {error.strerror}", 2) from None
        print(f"{len(documents)} of {len(found)} objects written to {output}", file=sys.stderr)
    if strict and told:
        raise CommandError(f"{told} {'thing was' if told == 1 else 'things were'} not carried over as they stood")

"""The texts of files that a command names."""

from pathlib import Path

from volcanopy.client.errors import CommandError


def text_of(path: Path | str, option: str = "", hint: str = "") -> str:
    """Return the text of a file. Raises CommandError, whose message begins with the option and ends with the hint."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8 text"
        raise CommandError(f"{option}{': ' if option else ''}cannot read {path}: {reason}{hint}", 2) from None

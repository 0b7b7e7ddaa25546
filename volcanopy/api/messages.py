"""Messages in statuses, and their length."""

MESSAGE_LENGTH = 32_768
"""Characters of a message in a status, at most."""
_MARK = " ... (shortened)"


def shortened(text: str) -> str:
    """Return a text of another program as a status may have it: the end of a longer one is replaced by a mark."""
    if not isinstance(text, str) or len(text) <= MESSAGE_LENGTH:  # validation reports what is no text
        return text
    return text[: MESSAGE_LENGTH - len(_MARK)] + _MARK

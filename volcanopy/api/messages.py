"""Messages in statuses, and their length; messages of errors in YAML."""

MESSAGE_LENGTH = 32_768
"""Characters of a message in a status, at most."""
_MARK = " ... (shortened)"


def shortened(text: str) -> str:
    """Return a text of another program as a status may have it: the end of a longer one is replaced by a mark."""
    if not isinstance(text, str) or len(text) <= MESSAGE_LENGTH:  # validation reports what is no text
        return text
    return text[: MESSAGE_LENGTH - len(_MARK)] + _MARK


def yaml_problem(error: Exception, text: str) -> str:
    """Return the sentence of an error in YAML, with the line if it is known."""
    mark = getattr(error, "problem_mark", None)
    line = "" if mark is None else f"line {min(mark.line + 1, max(len(text.splitlines()), 1))}: "
    return f"{line}invalid YAML: {getattr(error, 'problem', None) or ' '.join(str(error).split())}"

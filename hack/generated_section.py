"""The generated part of a page, between two markers."""


def replaced(text: str, begin: str, end: str, content: str) -> str:
    """Return the text of a page with this content between its markers, which stay."""
    before, _, rest = text.partition(begin)
    return before + begin + content + end + rest.partition(end)[2]

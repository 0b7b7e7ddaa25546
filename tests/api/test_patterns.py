"""Regular expressions of users."""

import time

import pytest

from volcanopy.api.patterns import PatternError, searcher

NODE = "gke-prod-default-pool-1a2b3c4d-x7k9-europe-west4-b"


@pytest.mark.parametrize("pattern", ["(a+)+$b", "^(([a-z0-9-])+)+Z$", "^(a|a)*$", "(.*a){20}", "(x+x+)+y"])
def test_no_expression_takes_long(pattern: str) -> None:
    """Processor time: each of these takes hours with an engine that backtracks."""
    started = time.process_time()
    matches = searcher(pattern)
    for text in (NODE, "a" * 5000, "x" * 5000):
        matches(text)
    assert time.process_time() - started < 2.0


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("^node-[0-9]+$", "node-12", True),
        ("^node-[0-9]+$", "node-12\n", False),
        ("rack", "my-rack-3", True),
        ("(?i)RACK", "rack", True),
        (r"\d+", "node", False),
        ("é", "café", True),
    ],
)
def test_expressions_match_anywhere_unless_they_are_anchored(pattern: str, text: str, expected: bool) -> None:
    assert searcher(pattern)(text) is expected


@pytest.mark.parametrize(
    "pattern", ["(", "a**", "(?<=a)b", r"(a)\1", "((a{100}){100}){100}", "[", "x" * 1001, "\ud800"]
)
def test_what_is_no_linear_expression_is_rejected_with_a_reason(pattern: str) -> None:
    with pytest.raises(PatternError, match=r"\w"):
        searcher(pattern)

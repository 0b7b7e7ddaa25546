"""Kubernetes quantities, exactly."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanopy.api import quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("500m", Fraction(1, 2)),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("+2", 2),
        ("-1", -1),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("2Ki", 2048),
        ("1.5Gi", 3 * 2**29),
        ("100n", Fraction(1, 10**7)),
        ("7u", Fraction(7, 10**6)),
        ("3k", 3000),
        ("12e-1", Fraction(6, 5)),
        (3, 3),
    ],
)
def test_every_form_is_read_exactly(text: str | int, value: Fraction) -> None:
    assert quantity.parse(text) == value


@pytest.mark.parametrize("text", ["", "1 Gi", "1gi", "abc", "1e", "--1", "1KI", "0x10", "1.2.3", "Ki"])
def test_an_invalid_quantity_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(quantity.QuantityError, match="is not a quantity: must be a number"):
        quantity.parse(text)


def test_fractions_of_a_base_unit_round_up() -> None:
    assert quantity.amount("cpu", "0.0001") == 1
    assert quantity.amount("memory", "100m") == 1
    assert quantity.amount("nvidia.com/gpu", "1.5") == 2


@pytest.mark.parametrize("text", ["100E", "9e30", "1e9999", "9223372036854775808"])
def test_an_amount_beyond_int64_saturates(text: str) -> None:
    """The API server accepts such quantities, so one of them must not stop whoever counts it."""
    assert quantity.amount("memory", text) == quantity.amount("cpu", text) == quantity.INT64_MAX
    assert quantity.amount("memory", f"-{text}") == -quantity.INT64_MAX


def test_a_quantity_of_thousands_of_digits_is_rejected_without_repeating_it() -> None:
    with pytest.raises(quantity.QuantityError, match="is not a quantity") as error:
        quantity.parse("9" * 5000)
    assert len(str(error.value)) < 200


@given(st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "ephemeral-storage", "pods"]), st.integers(-(2**53), 2**53))
def test_a_quantity_round_trips(resource: str, units: int) -> None:
    assert quantity.amount(resource, quantity.text(resource, units)) == units

"""The embedded API server, which imports nothing of volcanopy, reads and writes quantities as volcanopy does."""

from hypothesis import given
from hypothesis import strategies as st

from embedded_apiserver import quantities
from volcanopy.api import quantity

NUMBERS = st.from_regex(r"[+-]?[0-9]{1,25}(\.[0-9]{0,12})?", fullmatch=True)
SUFFIXES = st.sampled_from(["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-20", "e99999"])
TEXTS = st.builds(str.__add__, NUMBERS, SUFFIXES) | st.text(max_size=8)


@given(TEXTS | st.integers(), st.sampled_from(["cpu", "memory", "hugepages-2Mi", "nvidia.com/gpu"]))
def test_both_read_a_quantity_as_the_same_amount(text: str | int, resource: str) -> None:
    value = quantities.measure(text)
    try:
        amount = quantity.amount(resource, text)
    except quantity.QuantityError:
        amount = None
    assert (value is None) == (amount is None)
    if amount is not None:
        assert value == quantity.parse(text)
        assert quantities.amount(resource, text) == amount
        assert quantities.texts({resource: amount}) == quantity.texts({resource: amount})

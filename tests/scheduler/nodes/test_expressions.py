"""CEL expressions over devices."""

import pytest

from volcanopy.api.builtin.devices import BasicDevice
from volcanopy.scheduler.nodes.devices.cel_expressions import expression

DEVICE = BasicDevice(
    attributes={
        "model": {"string": "a100"},
        "driverVersion": {"version": "1.10.0"},
        "numa.example.com/socket": {"int": 1},
        "healthy": {"bool": True},
    },
    capacity={"memory": {"value": "40Gi"}},
)
A, C = 'device.attributes["gpu.example.com"]', 'device.capacity["gpu.example.com"]'


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ('device.driver == "gpu.example.com"', True),
        (f'{A}.model == "a100"', True),
        (f'{A}.model.startsWith("h")', False),
        (f"{A}.healthy", True),
        ('device.attributes["numa.example.com"].socket > 0', True),
        (f'{A}.driverVersion.isGreaterThan(semver("1.9.0"))', True),
        (f'{A}.driverVersion.compareTo(semver("1.10.0-rc.1")) > 0', True),
        (f"{A}.driverVersion.major() == 1 && {A}.driverVersion.minor() == 10 && {A}.driverVersion.patch() == 0", True),
        ('isSemver("1.9.0") && !isSemver("1.9") && isQuantity("40Gi") && !isQuantity("40Gib")', True),
        (f'{C}.memory.compareTo(quantity("40960Mi")) == 0', True),
        (f'{C}.memory.isLessThan(quantity("20Gi"))', False),
        ('"model" in device.attributes["nobody.example.com"]', False),
        (f"has({A}.color)", False),
        ('device.attributes.exists(domain, domain == "numa.example.com")', True),
    ],
)
def test_expressions_match_devices(text: str, matches: bool) -> None:
    verdict = expression(text).evaluate("gpu.example.com", DEVICE)
    assert (verdict.matches, verdict.fault) == (matches, "")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"{A}.color", "no such key: color"),
        (f"{A}.model", "the result is of type str, not bool"),
        (f'{A}.model.compareTo(quantity("1")) > 0', "'a100' is not a quantity"),
        (f"{A}.model.major() > 0", "'a100' is not a version such as 1.2.3"),
        ("1 +", "Syntax error"),
    ],
)
def test_failed_expressions_have_an_error(text: str, fault: str) -> None:
    verdict = expression(text).evaluate("gpu.example.com", DEVICE)
    assert not verdict.matches
    assert fault in verdict.fault


def test_devices_with_equal_attributes_are_evaluated_once() -> None:
    """And those that differ in something else are judged once."""
    compiled = expression(f'{A}.model == "t4"')
    others = [BasicDevice(attributes={"model": {"string": model}, "uuid": {"string": f"u{number}"}})
              for number, model in enumerate(("t4", "a100", "t4"))]  # fmt: skip
    assert [compiled.evaluate("gpu.example.com", other).matches for other in others] == [True, False, True]
    assert compiled.evaluate("gpu.example.com", others[0]) is compiled.evaluate("gpu.example.com", others[2])

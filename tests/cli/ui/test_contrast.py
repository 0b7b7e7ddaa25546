"""Contrast of the colours of the style sheet, in the light and the dark scheme (WCAG 2.2, success criteria 1.4.3 and 1.4.11)."""

import math
import re
from itertools import product

import pytest

from volcanopy.cli.ui.server import ASSETS

TEXT, GRAPHIC = 4.5, 3.0
"""Least ratios of texts and of parts of charts to what is behind them (level AA)."""
STYLE = (ASSETS / "style.css").read_text(encoding="utf-8")
BACKGROUNDS = ("back", "card")
SCHEMES = dict(zip(("light", "dark"), re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL), strict=True))
USED_AS_TEXT = ("text", "dim", "link", "error", "warn")


def luminance(colour: str) -> float:
    """The relative luminance of ``#rrggbb``."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, from 1 to 21."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def colours(scheme: str) -> dict[str, str]:
    """The variables of a scheme."""
    return dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6})", SCHEMES[scheme]))


def test_the_ratio_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_every_colour_of_a_text_is_a_variable_that_is_checked() -> None:
    rules = STYLE[STYLE.rindex(":root") :].partition("}")[2]
    used = set(re.findall(r"(?<![-a-z])color: ([^;}]+)", rules))
    assert used == {f"var(--{name})" for name in ("card", *USED_AS_TEXT)}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_texts_contrast_with_what_is_behind_them(scheme: str) -> None:
    known = colours(scheme)
    pairs = [*product(USED_AS_TEXT, BACKGROUNDS), ("text", "chip")]
    pairs += [("card", fill) for fill in ("link", "warn", "own", "error", "dim")]  # buttons and phases
    low = {pair: ratio for pair in pairs if (ratio := contrast(known[pair[0]], known[pair[1]])) < TEXT}
    assert low == {}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_parts_of_charts_contrast_with_what_is_behind_them(scheme: str) -> None:
    known = colours(scheme)
    pairs = [*product(("own", "borrowed", "share", "error", "text"), ("card",)), ("own", "limit"), ("text", "limit")]
    low = {pair: ratio for pair in pairs if (ratio := contrast(known[pair[0]], known[pair[1]])) < GRAPHIC}
    assert low == {}


def of_oklch(lightness: float, chroma: float, hue: int) -> float:
    """The relative luminance of a colour in OKLCH, its parts cut to what a screen shows."""
    a, b = chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    red = 4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short
    green = -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short
    blue = -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short
    return sum(
        weight * min(1.0, max(0.0, part))
        for weight, part in zip((0.2126, 0.7152, 0.0722), (red, green, blue), strict=True)
    )


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_hue_of_a_chart_contrasts_with_the_card(scheme: str) -> None:
    script = (ASSETS / "dom.js").read_text(encoding="utf-8")
    lightness, chroma = map(float, re.search(rf'{scheme.upper()} = "(\S+) (\S+)"', script).groups())  # type: ignore[union-attr]
    card = luminance(colours(scheme)["card"])
    for hue in range(360):
        one, other = sorted((of_oklch(lightness, chroma, hue), card))
        assert (other + 0.05) / (one + 0.05) >= GRAPHIC, hue

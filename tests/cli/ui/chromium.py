"""A tab of the system's Chromium, driven by the package playwright; ``make packages`` installs both."""

import importlib
import importlib.util
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_LACKING = [
    name
    for name, there in (("Chromium", CHROMIUM), ("playwright", importlib.util.find_spec("playwright")))
    if not there
]
needs_browser = pytest.mark.skipif(
    bool(_LACKING), reason=f"{' and '.join(_LACKING)} not installed: run `make packages`"
)


@asynccontextmanager
async def browser(width: int = 1280, scheme: str = "light") -> AsyncIterator[Any]:
    """A tab of a browser; errors of its scripts fail the test."""
    playwright: Any = importlib.import_module("playwright.async_api")
    errors: list[str] = []
    async with playwright.async_playwright() as program:
        chromium = await program.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = await chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.on("console", lambda line: errors.append(line.text) if _is_fault(line) else None)
        try:
            yield tab
        finally:
            await chromium.close()
    assert errors == []


def _is_fault(line: Any) -> bool:
    """Whether a line of the console is an error of a script; answers such as 404 are lines too."""
    return line.type == "error" and not line.text.startswith("Failed to load resource")

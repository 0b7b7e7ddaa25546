"""Answers of real kubelets, by name: what `tests/realnode/recording.py` recorded."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "kubelet_answers"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
PODS = [name for name in NAMES if name.startswith("pod-")]
NODES = [name for name in NAMES if name.startswith("node-")]


def text(name: str) -> bytes:
    """Return the JSON text of an answer."""
    return (FOLDER / f"{name}.json").read_bytes()


def answer(name: str) -> dict[str, Any]:
    """Return an answer."""
    content: dict[str, Any] = json.loads(text(name))
    return content

"""Specs of Volcano's suites that do not pass, and why. A key is a part of the spec's name."""

from collections.abc import Mapping

EXCEPTIONS: Mapping[str, Mapping[str, str]] = {}

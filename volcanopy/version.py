"""The version of volcanopy."""

VERSION = "0.1.0"

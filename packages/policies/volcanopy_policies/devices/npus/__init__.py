"""Shared and whole Ascend NPUs."""

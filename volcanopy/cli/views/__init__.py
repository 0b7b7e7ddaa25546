"""Columns, filters and descriptions of kinds with hardly any command of their own."""

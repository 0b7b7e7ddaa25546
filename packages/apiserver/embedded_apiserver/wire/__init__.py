"""Representations of objects: JSON, protobuf, tables."""

"""Schemas: defaulting, pruning, validation, CEL rules, OpenAPI documents."""

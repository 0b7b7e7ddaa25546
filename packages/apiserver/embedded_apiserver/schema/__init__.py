"""Schemas (defaulting, pruning, validation, CEL rules, OpenAPI documents), and the forms of names, labels and selectors."""

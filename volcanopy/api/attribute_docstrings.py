"""The docstrings of the fields of models: the strings below them.

They become descriptions when a schema is generated. To read them for each model when it is created, as pydantic can, takes
every program a fifth of a second of its start.
"""

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache

from pydantic import BaseModel


def attribute_docstrings(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the docstring of each field of a model that has one, its own or that of the class it inherits the field from."""
    docstrings: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if issubclass(kind, BaseModel) and kind is not BaseModel:
            docstrings |= _of_module(kind.__module__).get(kind.__name__, {})
    return docstrings


@cache
def _of_module(name: str) -> Mapping[str, Mapping[str, str]]:
    """Return the docstrings by class and attribute."""
    tree = ast.parse(inspect.getsource(sys.modules[name]))
    return {node.name: _of_class(node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def _of_class(body: ast.ClassDef) -> Mapping[str, str]:
    docstrings: dict[str, str] = {}
    for field, docstring in zip(body.body, body.body[1:], strict=False):
        match field, docstring:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                docstrings[name] = " ".join(text.split())
    return docstrings

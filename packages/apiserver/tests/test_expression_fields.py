"""Objects are handed to CEL with the fields that an expression uses, and the results are the same."""

from typing import Any

import cel
import pytest

from embedded_apiserver.schema.expression_fields import used_fields, uses_of

OBJECT: dict[str, Any] = {
    "kind": "Pod",
    "metadata": {"name": "a", "labels": {"x": "1", "object": "2"}, "annotations": {"long": "text"}},
    "spec": {"containers": [{"name": "main", "image": "busybox"}], "nodeName": "n1"},
}
SIZE: dict[str, Any] = {"": {}, "*": {"": {}}}
VARIABLES = ("object", "oldObject", "request")


def values(uses: dict[str, Any] | None) -> dict[str, Any]:
    everything = {"object": OBJECT, "oldObject": None, "request": {"object": OBJECT, "operation": "CREATE"}}
    return everything if uses is None else used_fields(everything, uses)


@pytest.mark.parametrize(
    ("expression", "fields"),
    [
        ("request.operation == 'CREATE'", {"request": {"operation": {}}}),
        ("has(object.metadata.labels) && 'x' in object.metadata.labels", {"object": {"metadata": {"labels": {}}}}),
        ("object.metadata.labels['object'] == '2'", {"object": {"metadata": {"labels": {}}}}),
        (
            "object.spec.containers.all(c, c.image == 'busybox')",
            {"object": {"spec": {"containers": {"*": {"": {}, "image": {}}}}}},
        ),
        ("object.spec.containers.exists(c, c.size() == 2)", {"object": {"spec": {"containers": {"*": SIZE}}}}),
        ("object.spec.containers.filter(c, c.name == 'main').size() == 1", {"object": {"spec": {"containers": {}}}}),
        (
            "object.metadata.labels.exists(k, object.spec.containers.all(c, k != c.name)) && size(object.metadata) == 3",
            {
                "object": {
                    "metadata": {"labels": {"*": {}}, "*": {"": {}}},
                    "spec": {"containers": {"*": {"": {}, "name": {}}}},
                }
            },
        ),
        (
            "object.spec.containers.all(c, object.metadata.labels.exists(c, c == 'x') && c.name == 'main')",
            {"object": {"spec": {"containers": {"*": {}}}, "metadata": {"labels": {"*": {}}}}},
        ),
        ("object.metadata.name.startsWith('a')", {"object": {"metadata": {"name": {}}}}),
        ("object.spec == request.object.spec", {"object": {"spec": {}}, "request": {"object": {"spec": {}}}}),
        (
            "object.spec.nodeName == 'n1' && size(object.spec) == 2",
            {"object": {"spec": {"nodeName": {}, "*": {"": {}}}}},
        ),
        ("size(object) == 3 && object.metadata.name == 'a'", {"object": {"*": {"": {}}, "metadata": {"name": {}}}}),
        ("oldObject == null || oldObject.metadata.name == 'b'", {"oldObject": {}}),
        ("object['metadata'].name == 'a'", {"object": {}}),
        ("'object.spec' == 'object.spec'", {}),
        ("!has(object.spec.missing) && object.kind == 'Pod'", {"object": {"spec": {"missing": {}}, "kind": {}}}),
    ],
)
def test_an_expression_gets_the_fields_that_it_uses(expression: str, fields: dict[str, Any]) -> None:
    uses = uses_of([expression], VARIABLES)
    assert uses == fields
    program = cel.compile(expression)
    assert program.execute(cel.Context(values(uses))) is program.execute(cel.Context(values(None))) is True


def test_the_fields_of_several_expressions_are_joined() -> None:
    uses = uses_of(["object.spec.a.b == 1", "object.spec.a == 2", "object.spec.c == 3"], VARIABLES)
    assert uses == {"object": {"spec": {"a": {}, "c": {}}}}

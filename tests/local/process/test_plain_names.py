"""Names of pods and Services are addresses for programs that cannot resolve them."""

import pytest

from volcanopy.local.process.plain_names import PlainNames

ADDRESSES = {("ring-worker-0", "ring", "lab"): "127.1.0.1", ("ring-worker-1", "ring", "lab"): "127.1.0.2"}
NAMES = PlainNames(
    "lab",
    {("lab", "ring"), ("other", "ring")},
    {("lab", "web"): ["127.1.0.9"], ("lab", "ring"): ["127.1.0.1", "127.1.0.2"]},
    lambda host, subdomain, namespace: ADDRESSES.get((host, subdomain, namespace), "127.9.9.9"),
)


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("ring-worker-0.ring,ring-worker-1.ring", "127.1.0.1,127.1.0.2"),
        ("ring-worker-1.ring.lab.svc.cluster.local:29500", "127.1.0.2:29500"),
        ("a pod that does not exist yet: ring-worker-7.ring.", "a pod that does not exist yet: 127.9.9.9."),
        ("ring-worker-0.ring slots=2", "127.1.0.1 slots=2"),
        ("web", "127.1.0.9"),
        ("http://web/x and web:80 and web.lab.svc", "http://127.1.0.9/x and 127.1.0.9:80 and 127.1.0.9"),
    ],
)
def test_names_that_a_cluster_resolves_are_replaced(text: str, replaced: str) -> None:
    assert NAMES.replaced(text) == replaced


@pytest.mark.parametrize(
    "text",
    [
        "ring",
        "model.ring()",
        "import web",
        "the web-server",
        "/data/ring-worker-0.ring/x",
        "ring-worker-0",
        "my_web:80",
        "1.5",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert NAMES.replaced(text) == text

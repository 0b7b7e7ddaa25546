"""Malformed and hostile AdmissionReviews: wrong types, deep nesting, huge lists, broken quantities, strange texts."""

from typing import Any

from hypothesis import strategies as st

from volcanopy.api import names

Json = dict[str, Any]

KINDS = [
    (names.BATCH, "BatchJob", names.BATCH_V1ALPHA1),
    (names.BATCH, "CronBatchJob", names.BATCH_V1ALPHA1),
    (names.FLOW, "JobFlow", f"{names.FLOW}/v1alpha1"),
    (names.FLOW, "JobTemplate", f"{names.FLOW}/v1alpha1"),
    (names.SCHEDULING, "Queue", names.SCHEDULING_V1BETA1),
    (names.SCHEDULING, "PodGroup", names.SCHEDULING_V1BETA1),
    (names.TOPOLOGY, "HyperNode", names.TOPOLOGY_V1ALPHA1),
    (names.BUS, "Command", names.BUS_V1ALPHA1),
    ("", "Pod", "v1"),
]
QUANTITIES: st.SearchStrategy[Any] = st.sampled_from(
    [
        "1",
        "-1",
        "",
        "1e9999",
        "1e-9999",
        "0x10",
        "1Zi",
        "9" * 400,
        "NaN",
        "١",
        1,
        -5,
        10**30,
        1.5,
        True,
        None,
        [],
        "1 Gi",
    ]
)
TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["", "root", "default", "a" * 300, "\u202eevil", "a/b", "../..", "\x00", "𝕁", "; drop", "queue\n", "%s%n"]
    ),
)
KEYS = st.sampled_from(
    [
        "tasks",
        "name",
        "replicas",
        "minAvailable",
        "template",
        "spec",
        "containers",
        "resources",
        "requests",
        "limits",
        "cpu",
        "memory",
        "queue",
        "plugins",
        "policies",
        "dependsOn",
        "minSuccess",
        "volumes",
        "partitionPolicy",
        "networkTopology",
        "parent",
        "capability",
        "deserved",
        "guarantee",
        "resource",
        "submitters",
        "administrators",
        "users",
        "groups",
        "weight",
        "members",
        "type",
        "selector",
        "exactMatch",
        "regexMatch",
        "pattern",
        "labelMatch",
        "matchExpressions",
        "flows",
        "targets",
        "patch",
        "jobSpec",
        "schedule",
        "jobTemplate",
        "minMember",
        "minResources",
        "subGroupPolicy",
        "annotations",
        "labels",
        "initContainers",
        "overhead",
        "schedulerName",
        "priorityClassName",
        "status",
        "state",
        "metadata",
    ]
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
    QUANTITIES,
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(st.one_of(KEYS, TEXTS), inner, max_size=6)),
    max_leaves=25,
)
_PARTS = {
    "tasks": st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "name": TEXTS | st.sampled_from(["a", "b"]),
                "replicas": st.integers(-5, 10**7) | VALUES,
                "minAvailable": st.integers(-5, 10**7) | VALUES,
                "template": st.fixed_dictionaries(
                    {
                        "spec": st.fixed_dictionaries(
                            {"containers": st.lists(st.dictionaries(KEYS, VALUES, max_size=4), max_size=3)}
                        )
                    }
                )
                | VALUES,
                "dependsOn": VALUES,
            },
        ),
        max_size=4,
    ),
    "queue": TEXTS | st.sampled_from(["science", "physics", "old"]),
    "parent": TEXTS | st.sampled_from(["science", "physics", "q"]),
    "capability": st.dictionaries(TEXTS, QUANTITIES, max_size=5),
    "deserved": st.dictionaries(TEXTS, QUANTITIES, max_size=5),
    "minResources": st.dictionaries(TEXTS, QUANTITIES, max_size=5),
    "members": st.lists(
        st.fixed_dictionaries(
            {"type": st.sampled_from(["Node", "HyperNode", "x"]), "selector": st.dictionaries(KEYS, VALUES, max_size=3)}
        ),
        max_size=4,
    ),
    "schedulerName": st.sampled_from(["volcanopy", "x"]),
    "tier": st.integers(-1, 10),
    "schedule": TEXTS | st.sampled_from(["@daily", "* * * * *", "0 0 31 2 *", "TZ=UTC @daily"]),
}
SPECS = st.one_of(VALUES, st.fixed_dictionaries({}, optional=_PARTS), st.dictionaries(KEYS, VALUES, max_size=6))


def _nested(depth: int) -> Any:
    result: Any = "x"
    for number in range(depth):
        result = [result] if number % 2 else {"a": result}
    return result


def _wide(size: int) -> list[Any]:
    unit: list[Any] = ["x" * 20, {"name": "a", "replicas": 1}, {str(n): "1e999" for n in range(50)}, None]
    return (unit * (size // 4 + 1))[:size]


HUGE = st.one_of(
    st.integers(10, 200).map(_nested),
    st.integers(500, 20_000).map(_wide),
    st.integers(100, 20_000).map(lambda size: {f"resource{n}": f"{n}e{n % 999}" for n in range(size)}),
    st.integers(100, 20_000).map(lambda size: {"tasks": [{"bogus": n} for n in range(size)]}),
    st.integers(1, 128).map(
        lambda size: {
            "tasks": [
                {"name": f"t{n}", "template": {}, "dependsOn": {"name": [f"z{m}" for m in range(128)]}}
                for n in range(size)
            ]
        }
    ),
    st.just({"queue": "a" * 500_000}),
    st.integers(1, 128).map(
        lambda size: {
            "tasks": [
                {
                    "name": f"t{n}",
                    "replicas": 10**6,
                    "template": {"spec": {"containers": [{"name": "c", "args": ["x"] * (size * 8)}]}},
                }
                for n in range(size)
            ],
            "plugins": {"svc": [], "ssh": [], "env": [], "pytorch": ["--master=t0", "--worker=t1"]},
        }
    ),
    st.integers(1, 3000).map(
        lambda n: {
            "containers": [{"resources": {"requests": {f"r{m}": "1e99" for m in range(60)}}}] * n,
            "schedulerName": "volcanopy",
        }
    ),
    st.just(
        {
            "tier": 1,
            "members": [
                {
                    "type": "Node",
                    "selector": {"regexMatch": {"pattern": "(((((a{1,99}){1,99}){1,99})*)*)*" + "(x|y)*" * 100}},
                }
            ]
            * 1000,
        }
    ),
    st.just({"minMember": 1, "subGroupPolicy": [{"name": "a", "matchLabelKeys": [f"k{m}" for m in range(16)]}] * 128}),
)
_REQUESTS = {
    "uid": TEXTS,
    "name": TEXTS | st.sampled_from(["q", "science"]),
    "namespace": TEXTS,
    "userInfo": st.one_of(
        VALUES, st.fixed_dictionaries({"username": TEXTS, "groups": st.lists(TEXTS, max_size=3) | VALUES})
    ),
    "oldObject": VALUES,
    "dryRun": st.booleans() | VALUES,
}


@st.composite
def reviews(draw: st.DrawFn, *, huge: bool = True) -> Any:
    """A body that may be no AdmissionReview at all."""
    if draw(st.integers(0, 19)) == 0:
        return draw(VALUES)
    group, kind, version = draw(st.sampled_from(KINDS))
    request = draw(st.fixed_dictionaries({}, optional=_REQUESTS))
    request["kind"] = {"group": group, "version": "v1", "kind": kind}
    request["operation"] = draw(st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT"]))
    spec = draw(HUGE if huge and draw(st.integers(0, 19)) == 0 else SPECS)
    metadata = draw(
        st.fixed_dictionaries(
            {"name": TEXTS | st.just("q")}, optional={"annotations": VALUES, "namespace": TEXTS, "labels": VALUES}
        )
    )
    manifest: Any = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
    request["object"] = draw(VALUES) if draw(st.integers(0, 19)) == 0 else manifest
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}

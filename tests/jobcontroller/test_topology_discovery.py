"""HyperNodes from the labels of nodes: what is made, kept, changed and deleted."""

from collections.abc import Mapping

import pytest

from volcanopy.api import names
from volcanopy.api.config_file import ConfigError
from volcanopy.jobcontroller.topology_discovery import (
    Discovery,
    HyperNodeChanges,
    changes,
    parse,
)
from volcanopy.kube.client.kinds import Json

RACK, HALL = "example.com/rack", "example.com/hall"
TYPES = {"plain": (RACK, HALL)}


def node(rack: str = "", hall: str = "") -> dict[str, str]:
    return {key: value for key, value in ((RACK, rack), (HALL, hall)) if value}


def members(item: Json) -> list[tuple[str, str]]:
    return [(member["type"], member["selector"]["exactMatch"]["name"]) for member in item["spec"]["members"]]


def existing(*made: Json) -> list[Json]:
    """HyperNodes as the API server returns them after they were created."""
    return [item | {"metadata": item["metadata"] | {"uid": item["metadata"]["name"]}} for item in made]


def created(nodes: Mapping[str, Mapping[str, str]], api_version: str = names.TOPOLOGY_V1ALPHA1) -> dict[str, Json]:
    """The HyperNodes of nodes by the value of their label, where none existed."""
    made = changes(TYPES, nodes, [], api_version)
    assert not made.change
    assert not made.delete
    return {item["metadata"]["labels"][item["spec"]["tierName"]]: item for item in made.create}


def test_each_value_of_a_label_becomes_a_hypernode_of_its_tier() -> None:
    nodes = {"n1": node("r1", "h"), "n2": node("r1", "h"), "n3": node("r2", "h"), "n4": node(), "n5": node("", "h")}
    made = created(nodes)
    assert made.keys() == {"r1", "r2", "h"}
    assert members(made["r1"]) == [("Node", "n1"), ("Node", "n2")]
    racks = sorted(made[rack]["metadata"]["name"] for rack in ("r1", "r2"))
    assert members(made["h"]) == [("HyperNode", name) for name in racks]
    assert [made[value]["spec"]["tier"] for value in ("r1", "r2", "h")] == [1, 1, 2]
    assert made["r1"]["metadata"]["labels"] == {RACK: "r1", "volcanopy.io/network-topology-source": "label"}


def test_nothing_is_written_where_nothing_has_changed() -> None:
    nodes = {"n1": node("r1", "h"), "n2": node("r2", "h")}
    assert changes(TYPES, nodes, existing(*created(nodes).values())) == HyperNodeChanges()


def test_a_moved_node_changes_both_racks_and_an_empty_rack_is_deleted() -> None:
    before = created({"n1": node("r1"), "n2": node("r2"), "n3": node("r3")})
    after = changes(TYPES, {"n1": node("r1"), "n2": node("r1"), "n3": node("r3")}, existing(*before.values()))
    assert [members(item) for item in after.change] == [[("Node", "n1"), ("Node", "n2")]]
    assert [item["metadata"]["name"] for item in after.delete] == [before["r2"]["metadata"]["name"]]
    assert not after.create


def test_a_hypernode_that_volcano_discovered_keeps_its_name_and_api() -> None:
    [old] = existing(*created({"n1": node("r1")}, "topology.volcano.sh/v1alpha1").values())
    old["metadata"]["name"] = "hypernode-plain-tier1-x7k2p"
    result = changes(TYPES, {"n1": node("r1"), "n2": node("r1")}, [old])
    [item] = result.change
    assert (item["apiVersion"], item["metadata"]["name"]) == (
        "topology.volcano.sh/v1alpha1",
        "hypernode-plain-tier1-x7k2p",
    )
    assert not result.create
    assert not result.delete


def test_hypernodes_of_administrators_are_left_alone() -> None:
    own = {
        "apiVersion": "topology.volcanopy.io/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": "mine", "uid": "1"},
    }
    assert changes(TYPES, {}, [own | {"spec": {"tier": 1, "members": []}}]) == HyperNodeChanges()


def test_more_nodes_than_a_hypernode_may_list_are_selected_by_their_label() -> None:
    made = created({f"n{number}": node("r1") for number in range(1025)})
    assert made["r1"]["spec"]["members"] == [
        {"type": "Node", "selector": {"labelMatch": {"matchLabels": {RACK: "r1"}}}}
    ]


def test_the_configuration_of_volcano_is_read() -> None:
    text = """
        networkTopologyDiscovery:
          - {source: ufm, enabled: false, interval: 10m, credentials: {secretRef: {name: ufm}}, config: {endpoint: "https://ufm"}}
          - source: label
            enabled: true
            config:
              networkTopologyTypes:
                plain: [{nodeLabel: example.com/hall}, {nodeLabel: example.com/rack}, {nodeLabel: kubernetes.io/hostname}]
    """
    assert parse(text) == Discovery({"plain": (RACK, HALL)})
    assert parse("") == parse("networkTopologyDiscovery: []") == Discovery()


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("source: ufm", '[0].source: "ufm" is not supported: use "label", or set enabled: false'),
        ("source: label, config: {a: 1}", "[0].config.a: Unknown field: correct its name or remove it"),
        ("source: label, surce: 1", "[0].surce: Unknown field: correct its name or remove it"),
        (
            "source: label, config: {networkTopologyTypes: {x: [{nodeLabel: a}]}}",
            "[0].config.networkTopologyTypes.x: the last label must be kubernetes.io/hostname",
        ),
        (
            "source: label, config: {networkTopologyTypes: {x: [{nodeLabel: a}, {nodeLabel: a}]}}",
            "[0].config.networkTopologyTypes.x: each label may occur once",
        ),
    ],
)
def test_an_invalid_configuration_is_rejected_with_the_key(source: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(f"networkTopologyDiscovery: [{{{source}, enabled: true}}]")
    assert str(raised.value) == f"networkTopologyDiscovery{problem}"

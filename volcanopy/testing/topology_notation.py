"""The part of the world notation that is about the network: hypernodes, and how close together jobs must run.

::

    hypernode rack-1 tier=1 tiername=rack: n1 n2 n3
    hypernode rack-2 tier=1 tiername=rack: /^n[4-6]$/ rack=2
    hypernode hall   tier=2: rack-1 rack-2
    job a topology=hard:1: 4 x cpu=1
    job b topology=hard:rack: 4 x cpu=1
    job c topology=soft: 4 x cpu=1
    job d split=2 split.min=1 split.by=a.b/part split.topology=hard:1: 2 x label.a.b/part=0, 2 x label.a.b/part=1

A hypernode holds what it lists: hypernodes, nodes, nodes whose names match a ``/pattern/``, nodes with a label ``key=value``.
``split=`` is the size of a sub-group, ``split.min=`` how many sub-groups are needed, ``split.by=`` the label by which pods
fall into them.
"""

from collections.abc import Collection, Iterable, Mapping

from volcanopy.api import core, topology_read


def hypernode(
    name: str, said: Mapping[str, str], members: Iterable[str], known: Collection[str]
) -> topology_read.HyperNode:
    """A hypernode; a member whose name is in ``known`` is one as well, all others are nodes."""
    spec = topology_read.HyperNodeSpec(
        tier=int(said.get("tier", 1)),
        tier_name=said.get("tiername", ""),
        members=tuple(_member(word, known) for word in members),
    )
    return topology_read.HyperNode(metadata=core.Meta(name=name, uid=f"uid--{name}"), spec=spec)


def topology(text: str) -> core.NetworkTopology | None:
    """``hard:1``, ``hard:rack`` or ``soft``; nothing for nothing."""
    if not text:
        return None
    mode, _, tier = text.partition(":")
    if tier.isdigit():
        return core.NetworkTopology(mode=mode, highest_tier_allowed=int(tier))
    return core.NetworkTopology(mode=mode, highest_tier_name=tier)


def split(said: Mapping[str, str]) -> tuple[core.SubGroupPolicy, ...]:
    """The sub-group policy that the words ``split`` and ``split.<word>`` give, if any."""
    if "split" not in said:
        return ()
    return (
        core.SubGroupPolicy(
            name=said.get("split.name", "part"),
            sub_group_size=int(said["split"]),
            min_sub_groups=int(said["split.min"]) if "split.min" in said else None,
            match_label_keys=(said["split.by"],),
            network_topology=topology(said.get("split.topology", "")),
        ),
    )


def _member(word: str, known: Collection[str]) -> topology_read.Member:
    if word.startswith("/") and word.endswith("/"):
        selector = topology_read.MemberSelector(regex_match=topology_read.RegexMatch(pattern=word[1:-1]))
        return topology_read.Member(type="Node", selector=selector)
    key, equals, value = word.partition("=")
    if equals:
        labels = core.LabelSelector(match_labels={key: value})
        return topology_read.Member(type="Node", selector=topology_read.MemberSelector(label_match=labels))
    selector = topology_read.MemberSelector(exact_match=topology_read.ExactMatch(name=word))
    return topology_read.Member(type="HyperNode" if word in known else "Node", selector=selector)

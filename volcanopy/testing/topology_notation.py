"""World notation for hypernodes and for the network topology constraints of jobs.

::

    hypernode rack-1 tier=1 tiername=rack: n1 n2 n3
    hypernode rack-2 tier=1 tiername=rack: /^n[4-6]$/ rack=2
    hypernode hall   tier=2: rack-1 rack-2
    job a topology=hard:1: 4 x cpu=1
    job b topology=hard:rack: 4 x cpu=1
    job c topology=soft: 4 x cpu=1
    job d split=2 split.min=1 split.by=a.b/part split.topology=hard:1: 2 x label.a.b/part=0, 2 x label.a.b/part=1

The members of a hypernode are hypernodes, nodes, nodes whose names match a ``/pattern/``, nodes with a label ``key=value``.
``split=`` is the size of a sub-group, ``split.min=`` how many sub-groups are needed, ``split.by=`` the label by which pods
are divided.
"""

from collections.abc import Collection, Iterable, Mapping

from volcanopy.api import core, topology_read


def hypernode(
    name: str, values: Mapping[str, str], members: Iterable[str], known: Collection[str]
) -> topology_read.HyperNode:
    """Return a hypernode; members whose names are in ``known`` are hypernodes, all others are nodes."""
    spec = topology_read.HyperNodeSpec(
        tier=int(values.get("tier", 1)),
        tier_name=values.get("tiername", ""),
        members=tuple(_member(word, known) for word in members),
    )
    return topology_read.HyperNode(metadata=core.Meta(name=name, uid=f"uid--{name}"), spec=spec)


def topology(text: str) -> core.NetworkTopology | None:
    """Return the constraint for ``hard:1``, ``hard:rack`` or ``soft``; None for an empty text."""
    if not text:
        return None
    mode, _, tier = text.partition(":")
    if tier.isdigit():
        return core.NetworkTopology(mode=mode, highest_tier_allowed=int(tier))
    return core.NetworkTopology(mode=mode, highest_tier_name=tier)


def split(values: Mapping[str, str]) -> tuple[core.SubGroupPolicy, ...]:
    """Return the sub-group policy of the keys ``split`` and ``split.<key>``, if any."""
    if "split" not in values:
        return ()
    return (
        core.SubGroupPolicy(
            name=values.get("split.name", "part"),
            sub_group_size=int(values["split"]),
            min_sub_groups=int(values.get("split.min", 0)),
            match_label_keys=(values["split.by"],),
            network_topology=topology(values.get("split.topology", "")),
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

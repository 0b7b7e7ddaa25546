"""World notation for hypernodes, cpus of nodes, and the network topology constraints of jobs.

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

The cpus of nodes::

    numa n1 cpus=2x4x2 policy=single-numa-node free=0-7 reserved=1 manager=static

Two NUMA nodes, each one socket of 4 cores with 2 threads; cpus are numbered core by core. Defaults: one thread per
core, policy ``none``, all cpus free, nothing reserved, manager ``static``.
"""

from collections.abc import Collection, Iterable, Mapping

from volcanopy.api import core, topology_read


def report(meta: core.Meta, values: Mapping[str, str]) -> topology_read.NumaTopology:
    """Return the NumaTopology of a line."""
    sizes = [int(size) for size in values.get("cpus", "1x1").split("x")]
    numas, cores, threads = (*sizes, 1, 1)[:3]
    where = [(node, core_) for node in range(numas) for core_ in range(cores) for _ in range(threads)]
    detail = {
        str(cpu): topology_read.CpuInfo(numa=node, socket=node, core=node * cores + core_)
        for cpu, (node, core_) in enumerate(where)
    }
    free = values.get("free", f"0-{len(where) - 1}")
    return topology_read.NumaTopology(
        metadata=meta,
        spec=topology_read.NumaTopologySpec(
            policies={
                "CPUManagerPolicy": values.get("manager", "static"),
                "TopologyManagerPolicy": values.get("policy", "none"),
            },
            res_reserved={"cpu": values.get("reserved", "0")},
            numares={"cpu": topology_read.ResourceInfo(allocatable=free, capacity=len(where))},
            cpu_detail=detail,
        ),
    )


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

"""World notation for the cpus of nodes::

    numa n1 cpus=2x4x2 policy=single-numa-node free=0-7 reserved=1 manager=static

Two NUMA nodes, each one socket of 4 cores with 2 threads; cpus are numbered core by core. Defaults: one thread per
core, policy ``none``, all cpus free, nothing reserved, manager ``static``.
"""

from collections.abc import Mapping

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

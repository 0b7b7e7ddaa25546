"""A whole cycle of the largest cluster that is documented.

2,000 queues in a tree of two levels, 5,000 nodes and HyperNodes, 20,000 waiting jobs: 2,000 of them are admitted, with 26,000 pods,
and every second one of these has a required topology.
"""

import resource
import sys

from bench.scheduler import timed
from volcanopy_testing import notation

QUEUES, NODES, WAITING, ADMITTED, PODS = 2_000, 5_000, 20_000, 2_000, 13


def text() -> str:
    """The cluster in the notation of the tests."""
    departments = QUEUES // 40
    leaves = QUEUES - departments
    lines = [f"queue d{number}" for number in range(departments)]
    lines += [f"queue q{number} parent=d{number % departments}" for number in range(leaves)]
    lines += [f"node n{number} cpu=64 memory=256Gi" for number in range(NODES)]
    members, tier = [f"n{number}" for number in range(NODES)], 0
    while len(members) > 1:  # of two members each: as many HyperNodes as nodes
        pairs, tier = [members[first : first + 2] for first in range(0, len(members), 2)], tier + 1
        members = [f"h{tier}-{number}" for number in range(len(pairs))]
        lines += [f"hypernode {name} tier={tier}: {' '.join(pair)}" for name, pair in zip(members, pairs, strict=True)]
    for number in range(WAITING):
        admitted = number < ADMITTED
        topology = " topology=hard:3" if admitted and number % 2 else ""
        phase, pods = ("", PODS) if admitted else (" phase=Pending", 1)
        lines.append(f"job j{number} queue=q{number % leaves}{phase}{topology}: {pods} x cpu=4")
    return "\n".join(lines)


def run() -> dict[str, float]:
    """Processor seconds of the cycle, and the MiB of the process at most."""
    seconds, _ = timed(notation.snapshot(text()), rounds=1)
    unit = 1024 if sys.platform != "darwin" else 1024 * 1024
    return {"seconds": seconds, "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit}

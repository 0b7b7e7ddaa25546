"""The reason why no domain takes a job with a network topology: message, numbers and missing resources."""

import numpy as np

from volcanopy.api.gates import Gate
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.engine.topology_constraint import REASON
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model import topology
from volcanopy.scheduler.model.messages import Message, sum_text
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy.plugin import Rejection


class TopologyFitError:
    """The domain that took most tasks of a job, and the reason made of it."""

    def __init__(self, session: Session, job: JobView) -> None:
        self._session, self._job = session, job
        self._table = session.snapshot.hypernodes
        self._best = (-1, NONE)  # The most tasks that found a place in one domain, and that domain.
        self.is_late = False  # Whether domains are tried out of their order, after all others.

    @property
    def most(self) -> int:
        """The most tasks that were placed in one domain; -1 before the first."""
        return self._best[0]

    def add(self, domain: int, placed: int) -> bool:
        """Record how many tasks were placed in a domain; return whether that is more than in any domain before."""
        (most, best), tiers = self._best, self._table.tiers
        # A domain that is tried late may precede the best one in the order in which domains are tried.
        precedes = self.is_late and (int(tiers[domain]), domain) < (int(tiers[best]), best)
        if placed < most or (placed == most and not precedes):
            return False
        self._best = (placed, domain)
        return True

    def record(self, failed: TaskView | None) -> None:
        """Reject the job: by the nodes for the task that failed, by a sub-group without enough pods, or by its topology."""
        session, job, spec = self._session, self._job, self._job.group.spec
        required = (spec.network_topology, *(policy.network_topology for policy in spec.sub_group_policy))
        hard = any(topology.is_hard(each, self._table) for each in required)
        fitted = max(self._best[0], 0)
        short = next((part for part in session.cluster.parts(job) if part.valid_count < part.min_available), None)
        if failed is not None and (not hard or (not fitted and self._fits_nowhere(failed))):
            session.reject_nodes(job, failed, fitted)
        elif failed is None and short is not None:
            name, numbers = short.key.rpartition("/")[2], f"{short.valid_count}/{short.min_available}"
            session.reject(job, Rejection(Gate.GANG, Message(f'sub-group "{name}": {numbers} required pods created')))
        elif hard:
            session.reject(job, Rejection(Gate.TOPOLOGY, self._message(fitted)))

    def _fits_nowhere(self, task: TaskView) -> bool:
        """Return whether no node is feasible for the task, whatever its hypernode."""
        rejections = self._session.hooks.reject(task, self._session.cluster.nodes())
        is_confined = any(rejection.reason == REASON for rejection in rejections)
        return not is_confined and self._session.placement.choose(task) is None

    def _message(self, fitted: int) -> Message:
        table, job = self._table, self._job
        asked = job.group.spec.network_topology
        tier = topology.bound(asked, table)
        if tier is None or not topology.is_hard(asked, table):
            return self._closest("no hypernode fits each sub-group", fitted, table.top, NONE)
        spanned = self._session.cluster.spanned(job.tasks())
        if spanned != NONE and table.widest(spanned, tier) == NONE:
            where = "they are in no common hypernode" if spanned == table.top else f"they span {self._name(spanned)}"
            return self._with_faults(
                f"running pods of the job exceed highestTierAllowed {tier}: {where}",
                {"tier": str(tier), "spanned": str(table.tiers[spanned])},
                "end of the pods outside one hypernode of that tier",
            )
        root = table.top if spanned == NONE else table.widest(spanned, tier)
        if not len(table.below(root, tier)):
            return self._with_faults(
                f"no hypernode of tier {tier} or lower exists", {"tier": str(tier)}, "creating a hypernode"
            )
        count = max(1, self._session.gangs.shortfall(job))
        pods = "the pod" if count == 1 else f"the {count} pods that must start together"
        if root == table.top:
            what = f"no hypernode of tier {tier} or lower fits {pods}"
        else:
            what = f"{self._name(root)}, where pods of the job run, does not fit {pods}"
        return self._closest(what, fitted, root, tier)

    def _closest(self, what: str, fitted: int, root: int, tier: int) -> Message:
        """The sentence with what comes closest: the domain in which most found a place, else the one that lacks least."""
        table = self._table
        numbers = {} if tier == NONE else {"tier": str(tier)}
        inside = root != table.top
        if fitted:
            name = self._name(self._best[1])
            if inside and self._best[1] == root:
                return self._with_faults(
                    f"{what}: it fits {fitted}", numbers | {"fits": str(fitted)}, f"free resources in {name}"
                )
            numbers |= {"closest": table.names[self._best[1]], "fits": str(fitted)}
            return self._with_faults(
                f"{what}: {name} is closest and fits {fitted}", numbers, f"free resources in {name}"
            )
        domains = np.array([root]) if inside else table.below(root, int(table.tiers[-1]) if tier == NONE else tier)
        tasks, count = self._job.tasks(Status.PENDING), max(1, self._session.gangs.shortfall(self._job))
        request = self._session.snapshot.least_request(tasks, count)
        dims = np.flatnonzero(request)
        missing = np.maximum(request[dims, None] - table.sums(self._session.ledger.future)[np.ix_(dims, domains)], 0)
        closest = int((missing / request[dims, None]).sum(axis=0).argmin())
        name = self._name(int(domains[closest]))
        names = self._session.snapshot.axis.names
        gaps = sum_text(
            [(names[dim], units) for dim, units in zip(dims, missing[:, closest].tolist(), strict=True) if units]
        )
        numbers["closest"] = table.names[int(domains[closest])]
        it = "it" if inside else f"{name} is closest and"
        if gaps:
            return self._with_faults(f"{what}: {it} lacks {gaps}", numbers, f"release of {gaps} in {name}")
        return self._with_faults(f"{what}: {it} has no fitting node", numbers, f"free resources on a node of {name}")

    def _with_faults(self, message: str, numbers: dict[str, str], unblocked_by: str) -> Message:
        faults = self._table.faults
        if faults:
            message += f"; {faults[0]}"
            message += f", {len(faults) - 1} more ignored" if len(faults) > 1 else ""
        return Message(message, numbers, {}, unblocked_by)

    def _name(self, domain: int) -> str:
        return "the whole cluster" if domain == self._table.top else f'hypernode "{self._table.names[domain]}"'

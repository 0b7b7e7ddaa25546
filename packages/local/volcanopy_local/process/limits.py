"""Enforces the limits of one run of a container: by control groups; without one for memory, by measuring it."""

import asyncio
import math
from collections.abc import Callable

from volcanopy.api import quantity
from volcanopy.kube.client.kinds import Json
from volcanopy_local.process.cgroups import PROCESSES, Cgroup, CgroupLimits, Cgroups
from volcanopy_local.process.measurements import Usage

MEASURED = 0.5
"""Seconds between measurements of memory where no control group limits it."""


def limits_of(container: Json) -> CgroupLimits:
    """The limits of cpu and memory of a container."""
    amounts = (container.get("resources") or {}).get("limits") or {}
    cpu, memory = (quantity.parse(str(amounts[name])) if name in amounts else None for name in ("cpu", "memory"))
    return CgroupLimits(None if cpu is None else float(cpu), None if memory is None else math.ceil(memory))


class EnforcedLimits:
    """The limits of one run; `name` is that of its control groups."""

    def __init__(self, cgroups: Cgroups, container: Json, name: str) -> None:
        self._limits = limits_of(container)
        self._is_measured = self._limits.memory is not None and "memory" not in cgroups.controllers
        self._exceeded = False
        self._cgroup: Cgroup | None = None
        requested = {"memory": self._limits.memory, "cpu": self._limits.cpu, "pids": PROCESSES}
        if any(requested[controller] is not None for controller in cgroups.controllers):
            self._cgroup = cgroups.create(name, self._limits)

    @property
    def groups(self) -> tuple[str, ...]:
        """The files by which a process joins the control groups."""
        return () if self._cgroup is None else self._cgroup.files

    async def watch(self, usage: Callable[[], Usage], kill: Callable[[], None]) -> None:
        """Kill the container when it exceeds its memory, if no control group does; returns at once if that is not needed."""
        while self._is_measured and not self._exceeded:
            assert self._limits.memory is not None
            if usage().memory > self._limits.memory:
                self._exceeded = True
                kill()
            await asyncio.sleep(MEASURED)

    async def end(self) -> bool:
        """Whether a process of the run was killed because of its memory; what is left of the run is killed."""
        if self._cgroup is not None:
            self._exceeded = self._exceeded or self._cgroup.oom_kills() > 0
            await self._cgroup.remove()
            self._cgroup = None
        return self._exceeded


def described(cgroups: Cgroups) -> str:
    """One sentence for the user: which limits are enforced."""
    if {"memory", "cpu", "pids"} <= cgroups.controllers:
        return f"Control groups enforce limits of memory and cpu, and at most {PROCESSES} processes of a container."
    memory = (
        "Limits of memory are enforced by control groups"
        if "memory" in cgroups.controllers
        else f"Limits of memory are enforced by measuring every {MEASURED:g} s: control groups cannot be written"
    )
    cpu = "limits of cpu by control groups" if "cpu" in cgroups.controllers else "limits of cpu are not enforced"
    pids = (
        f"at most {PROCESSES} processes of a container" if "pids" in cgroups.controllers else "any number of processes"
    )
    return f"{memory}; {cpu}; {pids}."

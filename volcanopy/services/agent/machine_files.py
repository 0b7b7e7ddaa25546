"""Reads of a node's files: the kernel's below ``/sys`` and ``/proc``, and the kubelet's."""

import re
from dataclasses import dataclass
from pathlib import Path

from volcanopy.scheduler.nodes.cpus.cpu_assignment import Cpus, members
from volcanopy.services.agent.node_report import (
    CpuLocation,
    KubeletSettings,
    ReportError,
    cpu_list,
    kubelet_settings,
    locations,
    number,
)

_NODE = re.compile(r"node(\d+)")


@dataclass(frozen=True)
class MachineFiles:
    """The files of one node; ``root`` is its root folder, ``kubelet`` that of its kubelet."""

    root: Path = Path("/")
    kubelet: Path = Path("/var/lib/kubelet")

    @property
    def socket(self) -> Path:
        """The socket on which the kubelet lists the resources of pods."""
        return self.kubelet / "pod-resources" / "kubelet.sock"

    def cpu_locations(self) -> dict[int, CpuLocation]:
        """Return the location of each CPU that is online. Raises ReportError, also for a kernel without topology."""
        system = self.root / "sys/devices/system"
        online = self._cpus(system / "cpu/online")
        numa = {
            int(match[1]): self._cpus(folder / "cpulist")
            for folder in sorted((system / "node").glob("node*"))
            if (match := _NODE.fullmatch(folder.name))
        }
        places = {}
        for cpu in members(online):
            folder = system / f"cpu/cpu{cpu}/topology"
            siblings = folder / "core_cpus_list"
            if not siblings.exists():  # kernels before 5.4
                siblings = folder / "thread_siblings_list"
            socket = folder / "physical_package_id"
            places[cpu] = (number(_read(socket), str(socket)), self._cpus(siblings))
        return locations(numa, places)

    def settings(self) -> KubeletSettings:
        """Return the settings of the kubelet; the defaults without a configuration file. Raises ReportError."""
        file = self.kubelet / "config.yaml"
        return kubelet_settings(_read(file), str(file)) if file.exists() else KubeletSettings()

    def counters(self) -> tuple[str, str]:
        """Return the contents of ``/proc/stat`` and ``/proc/meminfo``. Raises ReportError."""
        return _read(self.root / "proc/stat"), _read(self.root / "proc/meminfo")

    @staticmethod
    def _cpus(file: Path) -> Cpus:
        return cpu_list(_read(file), str(file))


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(f"{file} cannot be read: {error}") from None

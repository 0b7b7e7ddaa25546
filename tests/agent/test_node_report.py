"""What the agent reads from the files of a node and from its kubelet."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.agent import trees
from volcanopy.services.agent import node_report, pod_resources
from volcanopy.services.agent.load_window import Load, LoadWindow, is_due, sample
from volcanopy.services.agent.machine_files import MachineFiles
from volcanopy.services.agent.node_report import ContainerCpus, CpuLocation, KubeletSettings, NodeCpus, ReportError

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def test_the_location_of_each_cpu_is_that_of_the_kernel(tmp_path: Path) -> None:
    found = MachineFiles(trees.machine(tmp_path)).cpu_locations()
    assert {cpu: tuple(where) for cpu, where in found.items()} == {
        0: (0, 0, 0),
        1: (0, 0, 1),
        2: (1, 1, 2),
        3: (1, 1, 3),
        4: (0, 0, 0),
        5: (0, 0, 1),
        6: (1, 1, 2),
        7: (1, 1, 3),
    }


def test_a_kernel_without_numa_nodes_has_one(tmp_path: Path) -> None:
    root = trees.machine(tmp_path, numas=1)
    shutil.rmtree(root / "sys/devices/system/node")
    assert {where.numa for where in MachineFiles(root).cpu_locations().values()} == {0}


def test_offline_cpus_and_unknown_sockets_are_no_error(tmp_path: Path) -> None:
    system = trees.machine(tmp_path) / "sys/devices/system/cpu"
    (system / "online").write_text("0-2\n")
    (system / "cpu0/topology/physical_package_id").write_text("-1\n")
    (system / "cpu1/topology/core_cpus_list").rename(system / "cpu1/topology/thread_siblings_list")
    assert MachineFiles(tmp_path).cpu_locations() == {
        0: CpuLocation(0, 0, 0),
        1: CpuLocation(0, 0, 1),
        2: CpuLocation(1, 1, 2),
    }


def test_this_machine_has_a_layout() -> None:
    found = MachineFiles().cpu_locations()
    assert sorted(found) == sorted(set(found))
    assert all(where.core in found for where in found.values())


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (trees.KUBELET, KubeletSettings("static", "single-numa-node", "1500m")),
        ("kind: KubeletConfiguration\n", KubeletSettings("none", "none", "0")),
        (
            "cpuManagerPolicy: static\nreservedSystemCPUs: 0-1,4\nkubeReserved: {cpu: 9}",
            KubeletSettings("static", "none", "3"),
        ),
    ],
)
def test_policies_and_reserved_cpus_are_those_of_the_kubelet(text: str, settings: KubeletSettings) -> None:
    assert node_report.kubelet_settings(text, "config.yaml") == settings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "config.yaml is not YAML"),
        ("kind: Pod", "config.yaml is not a KubeletConfiguration"),
        ("- a", "config.yaml is not a KubeletConfiguration"),
        ("kubeReserved: {cpu: 4x}", "config.yaml: kubeReserved:"),
        ("reservedSystemCPUs: many", "config.yaml: reservedSystemCPUs:"),
    ],
)
def test_an_invalid_configuration_is_one_sentence(text: str, message: str) -> None:
    with pytest.raises(ReportError, match="^" + message.replace(".", r"\.")):
        node_report.kubelet_settings(text, "config.yaml")


def test_missing_and_broken_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"sys/devices/system/cpu/online cannot be read: .*No such file"):
        MachineFiles(tmp_path).cpu_locations()
    with pytest.raises(ReportError, match=r"^/proc/meminfo has no MemTotal and MemAvailable"):
        sample(trees.stat(1, 1), "MemTotal: 0 kB", NOW)


def test_the_report_has_the_cpus_that_nobody_has_alone() -> None:
    places = {cpu: CpuLocation(cpu // 2, cpu // 2, cpu) for cpu in range(4)}
    containers = [ContainerCpus("ns", "p", name, 1 << cpu) for cpu, name in ((1, "a"), (3, "b"))]
    spec = node_report.spec(NodeCpus(places, KubeletSettings("static", "restricted", "1"), containers))
    assert spec["numares"] == {"cpu": {"allocatable": "0,2", "capacity": 4}}
    assert spec["policies"] == {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "restricted"}
    assert spec["cpuDetail"]["3"] == {"numa": 1, "socket": 1, "core": 3}
    assert spec["podAllocations"] == [
        {
            "namespace": "ns",
            "name": "p",
            "containerAllocations": [
                {"name": "a", "allocations": {"cpu": "1"}},
                {"name": "b", "allocations": {"cpu": "3"}},
            ],
        }
    ]


# The kubelet's list


def test_the_kubelet_lists_the_cpus_of_containers(tmp_path: Path) -> None:
    many = [("ns", f"pod-{number}", "main", [number, number + 1000]) for number in range(2000)]
    with trees.kubelet(tmp_path) as kubelet:
        path = MachineFiles(kubelet=tmp_path).socket
        assert pod_resources.containers(path, 30.0) == []
        kubelet.containers = [("ns", "a", "main", [2, 300]), ("ns", "a", "side", []), ("other", "b", "c", [5])]
        assert pod_resources.containers(path, 30.0) == [
            ContainerCpus("ns", "a", "main", 1 << 2 | 1 << 300),
            ContainerCpus("other", "b", "c", 1 << 5),
        ]
        kubelet.containers = many
        assert len(pod_resources.containers(path, 30.0)) == 2000
        kubelet.status = "12"
        with pytest.raises(pod_resources.PodResourcesError, match="returned an error instead of a list"):
            pod_resources.containers(path, 30.0)


@pytest.mark.parametrize(
    "content", [b"\x0a\x05\x0a\x01", b"\x0f", b"\xff", b"\x0a\x04\x1a\x02\x18\xff", b"\x0a\x03\x0a\x01\xff"]
)
def test_a_broken_list_is_an_error_and_no_crash(content: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        pod_resources.decode(content)


def test_a_kubelet_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(pod_resources.PodResourcesError, match=r"kubelet\.sock does not list the resources of pods: "):
        pod_resources.containers(tmp_path / "kubelet.sock", 1.0)


# Load


def test_load_is_the_mean_over_ten_minutes() -> None:
    window, loads = LoadWindow(), []
    for minute, busy, idle in ((0, 0, 0), (5, 100, 100), (10, 300, 100), (15, 300, 300)):
        loads.append(window.add(sample(trees.stat(busy, idle), trees.MEMORY, NOW + timedelta(minutes=minute))))
    assert [load and (load.cpu, load.memory) for load in loads] == [None, (50.0, 25.0), (75.0, 25.0), (50.0, 25.0)]
    assert [load and (load.deviation[0], load.peak[0]) for load in loads[1:]] == [
        (0.0, 50.0),
        (25.0, 100.0),
        (50.0, 100.0),
    ]


def test_a_node_that_has_started_again_is_measured_anew() -> None:
    window = LoadWindow()
    for busy, idle in ((1000, 1000), (1100, 1000)):
        window.add(sample(trees.stat(busy, idle), trees.MEMORY, NOW))
    assert window.add(sample(trees.stat(10, 10), trees.MEMORY, NOW)) is None
    assert window.add(sample(trees.stat(10, 20), trees.MEMORY, NOW)) == Load(0.0, 25.0, NOW, (0.0, 0.0), (0.0, 25.0))


@pytest.mark.parametrize(
    ("changes", "due"),
    [({}, False), ({"cpu": 54.9}, False), ({"cpu": 55.0}, True), ({"memory": 15.0}, True), ({"minutes": 2}, True)],
)
def test_load_is_written_when_it_has_changed_or_is_old(changes: dict[str, Any], due: bool) -> None:
    later = NOW + timedelta(minutes=changes.get("minutes", 1))
    load = Load(changes.get("cpu", 50.0), changes.get("memory", 20.0), later)
    assert is_due(Load(50.0, 20.0, NOW), load) is due
    assert is_due(None, load)

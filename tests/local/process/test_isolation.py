"""Views of the machine for containers: mount points, replaced paths, hosts files, addresses."""

from collections.abc import Iterable

import pytest

from volcanopy.kube.client.kinds import Json
from volcanopy_local.process.file_view import root_operations
from volcanopy_local.process.hosts import HostEntry, address_number, address_text, hosts_text, service_addresses
from volcanopy_local.process.isolation import replaced_paths

TREE: dict[str, list[tuple[str, str | None]]] = {
    "/": [("etc", None), ("usr", None), ("bin", "usr/bin")],
    "/etc": [("hosts", None), ("ssl", None)],
    "/etc/ssl": [("certs", None)],
}


def entries(folder: str) -> Iterable[tuple[str, str | None]]:
    return TREE[folder]


def exists(path: str) -> bool:
    parent, _, name = path.rpartition("/")
    return path == "/" or path in TREE or name in [entry for entry, _ in TREE.get(parent or "/", [])]


def test_the_machine_is_bound_as_a_whole_if_all_mount_points_exist() -> None:
    assert root_operations(["/etc/hosts", "/usr"], entries, exists) == [("ro-bind", "/", "/")]


def test_a_folder_with_a_missing_mount_point_is_made_anew_from_its_entries() -> None:
    assert root_operations(["/etc/volcano"], entries, exists) == [
        ("ro-bind", "/", "/"),
        ("tmpfs", "/etc"),
        ("ro-bind-try", "/etc/hosts", "/etc/hosts"),
        ("ro-bind-try", "/etc/ssl", "/etc/ssl"),
    ]


def test_the_root_is_made_anew_for_a_missing_mount_point_in_it() -> None:
    assert root_operations(["/data"], entries, exists) == [
        ("ro-bind-try", "/etc", "/etc"),
        ("ro-bind-try", "/usr", "/usr"),
        ("symlink", "usr/bin", "/bin"),
    ]


def test_a_mount_point_below_another_is_made_in_that_volume() -> None:
    assert root_operations(["/usr", "/usr/deep/missing"], entries, exists) == [("ro-bind", "/", "/")]


def test_nested_folders_are_made_from_the_outside_in() -> None:
    operations = root_operations(["/etc/volcano", "/etc/ssl/own"], entries, exists)
    assert [operation[1] for operation in operations if operation[0] == "tmpfs"] == ["/etc", "/etc/ssl"]


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("/data", "/real"),
        ("/data/x.txt", "/real/x.txt"),
        ("--out=/data/x:/data", "--out=/real/x:/real"),
        ("/database", "/database"),
        ("/my/data", "/my/data"),
        ("/data.csv", "/data.csv"),
        ("cat /data", "cat /real"),
    ],
)
def test_paths_of_mounts_are_replaced_where_they_stand_alone(text: str, replaced: str) -> None:
    assert replaced_paths(text, {"/data": "/real"}) == replaced


def test_the_hosts_file_has_the_names_of_all_pods_and_of_their_service() -> None:
    text = hosts_text(
        [HostEntry("127.1.0.2", "lab", "job-w-1", "job-w-1", "job"), HostEntry("127.1.0.3", "lab", "solo", "h", "")],
        {("lab", "web"): ["127.1.0.4", "127.1.0.5"], ("other", "db"): ["127.1.0.6"]},
        "lab",
    )
    assert text.splitlines()[2:] == [
        "127.1.0.2\tjob-w-1.job.lab.svc.cluster.local job-w-1.job.lab.svc job-w-1.job.lab job-w-1.job job-w-1"
        " job.lab.svc.cluster.local job.lab.svc job.lab job",
        "127.1.0.3\th solo",
        "127.1.0.4\tweb.lab.svc.cluster.local web.lab.svc web.lab web",
        "127.1.0.5\tweb.lab.svc.cluster.local web.lab.svc web.lab web",
        "127.1.0.6\tdb.other.svc.cluster.local db.other.svc db.other",
    ]


def test_a_service_has_the_addresses_of_its_ready_pods() -> None:
    def pod(address: str, ready: str = "True", namespace: str = "lab", **status: str) -> Json:
        return {
            "metadata": {"namespace": namespace, "labels": {"app": "web"}},
            "spec": {"subdomain": "old"} if address == "127.1.0.9" else {},
            "status": {"podIP": address, "conditions": [{"type": "Ready", "status": ready}], **status},
        }

    pods = [
        *(pod("127.1.0.3"), pod("127.1.0.2"), pod("127.1.0.4", "False"), pod("127.1.0.5", namespace="x")),
        *(pod("10.0.0.1"), pod("127.1.0.9"), pod("127.1.0.6", phase="Failed")),
    ]
    service: Json = {"metadata": {"namespace": "lab", "name": "old"}, "spec": {"selector": {"app": "web"}}}
    assert service_addresses(service, pods) == ["127.1.0.2", "127.1.0.3"]
    service["spec"]["publishNotReadyAddresses"] = True
    assert service_addresses(service, pods) == ["127.1.0.2", "127.1.0.3", "127.1.0.4"]
    assert service_addresses({**service, "spec": {"selector": {"app": "other"}}}, pods) == []
    assert service_addresses({**service, "spec": {}}, pods) == []


def test_addresses_are_on_the_loopback_network_and_count_up() -> None:
    assert [address_text(number) for number in (0, 1, 256, 65536)] == [
        "127.1.0.0",
        "127.1.0.1",
        "127.1.1.0",
        "127.2.0.0",
    ]
    assert all(address_number(address_text(number)) == number for number in (0, 1, 300, 70_000))
    assert [address_number(address) for address in ("127.0.0.1", "10.0.0.1", "x")] == [-1, -1, -1]

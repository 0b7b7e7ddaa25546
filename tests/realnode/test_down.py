"""What `down` removes when the cluster's processes have ended."""

from pathlib import Path

from hack.realnode.cluster import Cluster
from hack.realnode.layout import Layout


def test_down_removes_the_cgroups_of_the_cluster_also_from_another_cgroup(tmp_path: Path) -> None:
    """Those that `up` has written down: each login session has a cgroup of its own."""
    group, run = tmp_path / "session-1/realnode", tmp_path / "run"
    (group / "node-1/kubepods").mkdir(parents=True)
    run.mkdir()
    Layout(str(run), "", "", 1, (), {"memory": str(group)}).write()
    Cluster(run).down()
    assert not group.exists()
    assert group.parent.exists()
    assert not run.exists()


def test_down_without_a_cluster_does_nothing(tmp_path: Path) -> None:
    Cluster(tmp_path / "absent").down()
    assert list(tmp_path.iterdir()) == []

"""The configuration of an embedded cluster is in the ConfigMap of the chart."""

from pathlib import Path

from volcanopy.client import scheduler_config
from volcanopy.scheduler.policy.config import DEFAULT
from volcanopy.services.process.settings import SchedulerSettings
from volcanopy_local.cluster import LocalCluster, Parts


async def test_the_default_configuration_is_there() -> None:
    async with LocalCluster(0) as cluster:
        assert await scheduler_config.configured(cluster.client) == DEFAULT


async def test_the_configuration_of_a_file_is_there(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text('actions: "enqueue, allocate"\ntiers: []\n')
    async with LocalCluster(0, parts=Parts(scheduler=SchedulerSettings(config=file))) as cluster:
        assert await scheduler_config.configured(cluster.client) == file.read_text()

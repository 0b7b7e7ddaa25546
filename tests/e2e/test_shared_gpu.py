"""The example of shared GPUs, on a simulated node that has two."""

from collections import Counter

from tests.e2e.world import EXAMPLES, JOBS, PODS, World, example, phase_of
from volcanopy.api import names
from volcanopy.api.builtin import gpu_annotations
from volcanopy.cli.manifests import read
from volcanopy.kube.client.kinds import Json
from volcanopy.services.process.settings import SchedulerSettings
from volcanopy_local.cluster import LocalCluster, Parts
from volcanopy_local.simulated.nodes import copy_of

FOLDER = EXAMPLES / "20-shared-gpu"


async def test_pods_share_two_gpus_and_have_annotations_with_their_gpu() -> None:
    """No card is given more memory or cores than it has, and the job completes."""
    parts = Parts(scheduler=SchedulerSettings(config=FOLDER / "scheduler.conf"))
    nodes = [copy_of(item.body) for item in read([str(FOLDER / "cluster")])]
    async with LocalCluster(0, objects=nodes, parts=parts) as local:
        world = World(local.components, "default", FOLDER)
        await world.create(*example("20-shared-gpu"))

        def all_placed(pods: list[Json]) -> bool:
            return len(pods) == 5 and all(pod["spec"].get("nodeName") for pod in pods)

        pods = await world.all_of(PODS, all_placed)
        memory: Counter[str] = Counter()
        cores: Counter[str] = Counter()
        for pod in pods:
            notes = pod["metadata"]["annotations"]
            assert notes[names.VGPU_NODE] == pod["spec"]["nodeName"] == "gpu-1"
            held = list(gpu_annotations.vgpu_shares(notes[names.VGPU_IDS]))
            assert len(held) == (2 if "train" in pod["metadata"]["name"] else 1)
            for card in held:
                memory[card.id] += card.memory
                cores[card.id] += card.cores
        assert memory == {"GPU-0": 16000, "GPU-1": 16000}
        assert cores == {"GPU-0": 100, "GPU-1": 100}
        await world.all_of(JOBS, lambda jobs: [phase_of(job) for job in jobs] == ["Completed"])

"""The jobs of a run: gangs of mixed sizes that need little and take some seconds."""

from random import Random

from volcanopy.api import names
from volcanopy.kube.client.kinds import Json

SIZES = (1, 2, 3, 5, 8, 12)


def gang(name: str, size: int, rng: Random) -> Json:
    """Return a job whose pods run for some seconds, on simulated nodes as on real ones."""
    seconds = rng.randint(1, 6)
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sleep", str(seconds)],
        "resources": {"requests": {"cpu": rng.choice(("500m", "1")), "memory": "16Mi"}},
    }
    spec: Json = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    template = {"metadata": {"annotations": {"sim.volcanopy.io/duration": f"{seconds}s"}}, "spec": spec}
    job: Json = {"minAvailable": size, "tasks": [{"name": "worker", "replicas": size, "template": template}]}
    if rng.random() < 0.5:
        job["policies"] = [{"event": rng.choice(("PodEvicted", "PodFailed")), "action": "RestartJob"}]
        job["maxRetry"] = 50
    return {"apiVersion": names.BATCH_V1ALPHA1, "kind": "BatchJob", "metadata": {"name": name}, "spec": job}

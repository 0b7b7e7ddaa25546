"""The last lines of the logs of jobs, pod by pod."""

from collections.abc import Sequence

from volcanopy.api.batch_read import BatchJob
from volcanopy.client.jobs.logs import ContainerLog, log_path
from volcanopy.client.jobs.options import LogOptions
from volcanopy.client.jobs.pods import pods_of
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import ApiError
from volcanopy.kube.client.printable import printable


async def print_last_lines(jobs: Sequence[tuple[Client, BatchJob]], count: int) -> None:
    """Print the last lines of the first container of every pod of jobs, each given with the view of its API."""
    for client, job in jobs:
        for pod in await pods_of(client, job):
            source = ContainerLog(pod, pod.spec.containers[0].name)
            try:
                text = await client.get_raw(log_path(source, LogOptions(tail=count), follow=False))
            except ApiError:
                continue  # it has not started, or was deleted meanwhile
            for line in text.decode(errors="replace").splitlines():
                print(f"{pod.metadata.name} | {printable(line)}")

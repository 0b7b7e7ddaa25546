"""Posts a message to a chat when a job fails: ``WEBHOOK=https://... kopf run --all-namespaces notify.py``."""

import os

import aiohttp

from volcanopy import on


@on.job_phase("Failed", "Aborted")
async def notify(job, **_):
    """Post the phase of the job and the reason."""
    text = f"job {job.metadata.namespace}/{job.metadata.name} {job.status.state.phase}: {job.status.state.message}"
    async with aiohttp.ClientSession() as session, session.post(os.environ["WEBHOOK"], json={"text": text}) as response:
        response.raise_for_status()  # kopf calls the handler again later

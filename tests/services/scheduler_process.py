"""A scheduler in a process of its own, to be killed: ``python -m tests.services.scheduler_process URL``."""

import asyncio
import sys

from volcanopy.kube.client.connection import Connection
from volcanopy.services.process.settings import SchedulerSettings
from volcanopy.services.scheduler.scheduler_service import run


async def main(url: str) -> None:
    """Schedule until killed. Few binds are under way at once, so that death finds many gangs half bound."""
    await run(Connection(url), SchedulerSettings(in_flight=3), asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

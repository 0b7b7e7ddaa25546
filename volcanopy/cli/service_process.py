"""A service as a process of its own: logging, health endpoints, signals and exit messages."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import structlog
import uvloop

from volcanopy.api.config_file import ConfigError
from volcanopy.cli.logs import configure
from volcanopy.client.errors import CommandError, first_of
from volcanopy.installed.entry_points import ThirdPartyError
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import KubeError
from volcanopy.services.agent.node_report import ReportError
from volcanopy.services.process.health import Health, MetricsAccess, serving
from volcanopy.services.process.supervisor import Pulse, Watchdog

if TYPE_CHECKING:
    from volcanopy.cli.framework.options import ClusterOptions, ProcessOptions

log = structlog.get_logger(__name__)

STANDSTILL = 60.0
"""Seconds after which a process ends whose event loop stands still."""
BLOCKING_CALLS = 2
"""Threads for calls that would stop the event loop, such as the plan of a very large job: they compete for one processor."""
Service = Callable[[Connection, asyncio.Event, Health], Awaitable[None]]
"""Runs until the event is set, and adds its checks to the health endpoints."""


def serve(cluster: "ClusterOptions", options: "ProcessOptions", service: Service) -> None:
    """Run a service with its health endpoints until SIGINT or SIGTERM. Raises CommandError."""
    configure(verbose=options.verbose)
    try:
        uvloop.run(_serve(cluster.connection(), options, service))
    except* (KubeError, ThirdPartyError, ConfigError, ReportError, OSError) as errors:
        raise CommandError(str(first_of(errors))) from None


async def _serve(connection: Connection, options: "ProcessOptions", service: Service) -> None:
    stop, health = asyncio.Event(), Health()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(BLOCKING_CALLS, "blocking call"))
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    pulse = Pulse()
    beating = asyncio.create_task(pulse.run())
    access = MetricsAccess(options.metrics_port, options.metrics_token, options.former_metric_names)
    async with serving(health, options.address, options.health_port, access) as (address, metrics):
        log.info("serving health and metrics", address=address, metrics=metrics)
        with Watchdog(lambda: pulse.beats, STANDSTILL, health.call_farewell):
            try:
                await service(connection, stop, health)
            except asyncio.CancelledError:
                if not stop.is_set():  # else it was starting
                    raise
    beating.cancel()

"""``volcanopy scheduler``, ``controller`` and ``admission``: a service as a process of its own."""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import uvloop

from volcanopy.admission.policy import PolicyError
from volcanopy.cli.errors import CommandError
from volcanopy.cli.logs import configure
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import KubeError
from volcanopy.kube.leader.elector import Terms
from volcanopy.scheduler.framework.config import ConfigError
from volcanopy.services.process.entry_points import ThirdPartyError
from volcanopy.services.process.health import Health, serving
from volcanopy.services.process.settings import Election, SchedulerSettings

log = logging.getLogger(__name__)

Service = Callable[[Connection, asyncio.Event], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Process:
    """What every process that stands in a cluster is told: where that is, whether it has equals, where it is asked."""

    kubeconfig: Path | None
    context: str | None
    leader_elect: bool
    lease_namespace: str
    lease_name: str
    lease_duration: int
    renew_deadline: float
    retry_period: float
    host: str
    port: int
    verbose: bool

    def election(self, name: str) -> Election | None:
        """The competition it takes part in; ``name`` is the Lease where none is given."""
        if not self.leader_elect:
            return None
        try:
            terms = Terms(duration=self.lease_duration, renew=self.renew_deadline, retry=self.retry_period)
        except ValueError as error:
            raise CommandError(f"--lease-duration, --renew-deadline, --retry-period: {error}", 2) from None
        return Election(name=self.lease_name or name, namespace=self.lease_namespace, terms=terms)

    def serve(self, run: Callable[[Connection, asyncio.Event, Health], Awaitable[None]]) -> None:
        """Run a service, and tell of its health, until it is told to stop."""

        async def with_health(connection: Connection, stop: asyncio.Event) -> None:
            health = Health()
            async with serving(health, self.host, self.port) as address:
                log.info("health is told at %s", address)
                await run(connection, stop, health)

        _serve(self.kubeconfig, self.context, with_health, verbose=self.verbose)


def scheduler(process: Process, config: Path | None, name: str, stuck_after: float) -> None:
    """Run the scheduler until it is told to stop."""
    from volcanopy.services.scheduler.scheduler_service import run

    election = process.election(f"{name}-scheduler")
    settings = SchedulerSettings(scheduler_name=name, config=config, election=election, stuck_after=stuck_after)
    process.serve(lambda connection, stop, health: run(connection, settings, stop, health=health))


def controller(process: Process, scheduler_name: str) -> None:
    """Run the job controller until it is told to stop."""
    from volcanopy.services.controllers.controller_service import JobControllerSettings, run

    election = process.election("volcanopy-controller")
    settings = JobControllerSettings(scheduler_name=scheduler_name, election=election)
    process.serve(lambda connection, stop, health: run(connection, settings, stop, health=health))


def admission(
    kubeconfig: Path | None,
    context: str | None,
    host: str,
    port: int,
    url: str,
    service: str,
    config: Path | None,
    *,
    verbose: bool,
) -> None:
    """Run the admission webhook until it is told to stop."""
    from volcanopy.services.admission.admission_service import AdmissionSettings, run

    if service and service.count("/") != 1:
        raise CommandError(
            f"--service: {service!r} must be a namespace and a name, such as volcanopy-system/admission", 2
        )
    # Behind a Service there are others like us, who serve on when we end.
    settings = AdmissionSettings(host=host, port=port, url=url, service=service, config=config, unregister=not service)
    _serve(kubeconfig, context, lambda connection, stop: run(connection, settings, stop), verbose=verbose)


def _serve(kubeconfig: Path | None, context: str | None, service: Service, *, verbose: bool) -> None:
    configure(verbose=verbose)
    try:
        uvloop.run(_until_told(Connection.load(kubeconfig, context), service))
    except* ConfigError as errors:
        raise CommandError(f"the scheduler configuration: {_first(errors)}") from None
    except* (KubeError, ThirdPartyError, PolicyError) as errors:
        raise CommandError(str(_first(errors))) from None
    except* OSError as errors:
        raise CommandError(str(_first(errors))) from None


async def _until_told(connection: Connection, service: Service) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await service(connection, stop)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a group, however deep."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error

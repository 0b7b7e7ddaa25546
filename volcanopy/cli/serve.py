"""``volcanopy scheduler``, ``controller`` and ``admission``: a service as a process of its own."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from volcanopy.admission.policy import PolicyError
from volcanopy.cli.errors import Stop
from volcanopy.cli.logs import configure
from volcanopy.kube.connection import Connection
from volcanopy.kube.errors import KubeError
from volcanopy.scheduler.config import ConfigError
from volcanopy.services.settings import SchedulerSettings
from volcanopy.services.thirdparty import ThirdPartyError

Service = Callable[[Connection, asyncio.Event], Awaitable[None]]


def scheduler(kubeconfig: Path | None, context: str | None, config: Path | None, name: str, *, verbose: bool) -> None:
    """Run the scheduler until it is told to stop."""
    from volcanopy.services.scheduler import run

    settings = SchedulerSettings(scheduler_name=name, config=config)
    _serve(kubeconfig, context, lambda connection, stop: run(connection, settings, stop), verbose=verbose)


def controller(kubeconfig: Path | None, context: str | None, scheduler_name: str, *, verbose: bool) -> None:
    """Run the job controller until it is told to stop."""
    from volcanopy.services.jobcontroller import JobControllerSettings, run

    settings = JobControllerSettings(scheduler_name=scheduler_name)
    _serve(kubeconfig, context, lambda connection, stop: run(connection, settings, stop), verbose=verbose)


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
    from volcanopy.services.admission import AdmissionSettings, run

    if service and service.count("/") != 1:
        raise Stop(f"--service: {service!r} must be a namespace and a name, such as volcanopy-system/admission", 2)
    # Behind a Service there are others like us, who serve on when we end.
    settings = AdmissionSettings(host=host, port=port, url=url, service=service, config=config, unregister=not service)
    _serve(kubeconfig, context, lambda connection, stop: run(connection, settings, stop), verbose=verbose)


def _serve(kubeconfig: Path | None, context: str | None, service: Service, *, verbose: bool) -> None:
    configure(verbose=verbose)
    try:
        uvloop.run(_until_told(Connection.load(kubeconfig, context), service))
    except* ConfigError as errors:
        raise Stop(f"the scheduler configuration: {_first(errors)}") from None
    except* (KubeError, ThirdPartyError, PolicyError) as errors:
        raise Stop(str(_first(errors))) from None
    except* OSError as errors:
        raise Stop(str(_first(errors))) from None


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

"""The commands that run a service: ``volcanopy scheduler``, ``controller`` and ``admission``, with their options.

What they do stands in ``serve`` and is imported when one of them is called.
"""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()

Kubeconfig = Annotated[
    Path | None, typer.Option(help="The kubeconfig file; KUBECONFIG, the usual place, or in-cluster otherwise.")
]
Context = Annotated[str | None, typer.Option(help="The context of the kubeconfig file.")]


LeaderElect = Annotated[
    bool, typer.Option(help="Compete with equal processes for a Lease, and act only while holding it.")
]
LeaseNamespace = Annotated[
    str, typer.Option(help="The namespace of the Lease; the pod's own, or kube-system outside of a cluster.")
]
LeaseDuration = Annotated[
    int, typer.Option(min=1, help="Seconds without a renewal after which another process takes the Lease over.")
]
RenewDeadline = Annotated[
    float, typer.Option(help="Seconds without a renewal after which the leader stops; less than the duration.")
]
RetryPeriod = Annotated[float, typer.Option(help="Seconds between two renewals; less than the deadline.")]
BindAddress = Annotated[str, typer.Option(help="Where /livez, /healthz, /readyz and /metrics are served.")]
HealthPort = Annotated[int, typer.Option(min=0, max=65535, help="The port of these; 0 takes a free one.")]


@app.command("scheduler")
def scheduler_command(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: Annotated[
        Path | None, typer.Option(help="The scheduler configuration; read again when it changes.")
    ] = None,
    scheduler_name: Annotated[str, typer.Option(help="Pods that give this spec.schedulerName are ours.")] = "volcanopy",
    leader_elect: LeaderElect = True,
    lease_namespace: LeaseNamespace = "",
    lease_name: Annotated[str, typer.Option(help="The Lease; the scheduler's name with -scheduler otherwise.")] = "",
    lease_duration: LeaseDuration = 10,
    renew_deadline: RenewDeadline = 6.0,
    retry_period: RetryPeriod = 2.0,
    bind_address: BindAddress = "0.0.0.0",
    health_port: HealthPort = 8080,
    stuck_after: Annotated[
        float, typer.Option(min=1.0, help="Seconds without a finished cycle after which /healthz fails.")
    ] = 120.0,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Log every decision.")] = False,
) -> None:
    """Run the scheduler against a cluster."""
    from volcanopy.cli.serve import Process, scheduler

    process = Process(
        kubeconfig=kubeconfig,
        context=context,
        leader_elect=leader_elect,
        lease_namespace=lease_namespace,
        lease_name=lease_name,
        lease_duration=lease_duration,
        renew_deadline=renew_deadline,
        retry_period=retry_period,
        host=bind_address,
        port=health_port,
        verbose=verbose,
    )
    scheduler(process, config, scheduler_name, stuck_after)


@app.command("controller")
def controller_command(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler_name: Annotated[
        str, typer.Option(help="Pods that give this spec.schedulerName and are no job's get a PodGroup.")
    ] = "volcanopy",
    leader_elect: LeaderElect = True,
    lease_namespace: LeaseNamespace = "",
    lease_name: Annotated[str, typer.Option(help="The Lease.")] = "volcanopy-controller",
    lease_duration: LeaseDuration = 10,
    renew_deadline: RenewDeadline = 6.0,
    retry_period: RetryPeriod = 2.0,
    bind_address: BindAddress = "0.0.0.0",
    health_port: HealthPort = 8080,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Log every step.")] = False,
) -> None:
    """Run the job controller against a cluster."""
    from volcanopy.cli.serve import Process, controller

    process = Process(
        kubeconfig=kubeconfig,
        context=context,
        leader_elect=leader_elect,
        lease_namespace=lease_namespace,
        lease_name=lease_name,
        lease_duration=lease_duration,
        renew_deadline=renew_deadline,
        retry_period=retry_period,
        host=bind_address,
        port=health_port,
        verbose=verbose,
    )
    controller(process, scheduler_name)


@app.command("admission")
def admission_command(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")] = 0,
    url: Annotated[str, typer.Option(help="How the API server reaches us, if not by that address.")] = "",
    service: Annotated[str, typer.Option(help="The Service in front of us, as namespace/name.")] = "",
    config: Annotated[
        Path | None, typer.Option(help="The admission configuration; read again when it changes.")
    ] = None,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Log every review.")] = False,
) -> None:
    """Run the admission webhook and register it with a cluster."""
    from volcanopy.cli.serve import admission

    admission(kubeconfig, context, host, port, url, service, config, verbose=verbose)

"""``volcanopy job run --interactive``: the terminal of the user as the terminal of a pod."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from http import HTTPStatus
from urllib.parse import urlencode

import aiohttp

from volcanopy.api.batch_read import BatchJob
from volcanopy.cli.jobs.wait_notes import WaitNotes
from volcanopy.client.errors import CommandError
from volcanopy.client.jobs.logs import GRACE
from volcanopy.client.jobs.pods import Pod, pods_in_order, selector_of
from volcanopy.client.jobs.status import FINISHED, phase, summary
from volcanopy.client.kinds import read
from volcanopy.client.watch import watch_objects
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import ApiError
from volcanopy.kube.client.raw_kinds import JOBS, PODS

_PROTOCOL = "v5.channel.k8s.io"
_STDIN, _STDOUT, _STDERR, _STATUS, _SIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_CHUNK = 1 << 15


async def interact(client: Client, namespace: str, name: str) -> None:
    """Wait for the pod of a job, and connect the terminal with it until it ends. Raises CommandError."""
    pod = await _running_pod(client, namespace, name)
    container = pod.spec.containers[0].name
    query = urlencode({"container": container, "stdin": "true", "stdout": "true", "tty": "true"})
    path = f"{PODS.path(namespace, pod.metadata.name, 'attach')}?{query}"
    try:
        socket = await client.websocket(path, _PROTOCOL)
    except ApiError as fault:
        if fault.code != HTTPStatus.BAD_REQUEST:
            raise
        now = read(Pod, await client.get(PODS, namespace, pod.metadata.name))
        ended = now.status.phase in {"Succeeded", "Failed"}
        cause = (
            "it has ended" if ended else "its container has no terminal, or its node is simulated and runs no program"
        )
        raise CommandError(f'pod "{pod.metadata.name}" accepts no connection: {cause}') from fault
    print(f'Connected with pod "{pod.metadata.name}". Without a prompt, press Enter.', file=sys.stderr)
    with _raw_terminal():
        await _connect(socket)


async def _running_pod(client: Client, namespace: str, name: str) -> Pod:
    """Wait until the pod of a job runs, with notes on why it waits. Raises CommandError if the job ends before."""
    notes, patient = WaitNotes(), True
    async with (
        watch_objects(client, JOBS, namespace, fields=f"metadata.name={name}") as jobs,
        watch_objects(client, PODS, namespace, selector=selector_of(name), also=jobs) as pods,
    ):
        while True:
            for body in jobs.objects.values():
                job = read(BatchJob, body)
                if phase(job) in FINISHED:
                    raise CommandError(f'job "{name}" is {summary(job)}')
                notes.observe(job, patient=patient)
                for pod in pods_in_order(pods.objects.values(), job):
                    statuses = pod.status.container_statuses
                    if statuses and statuses[0].state.running is not None:
                        return pod
            patient = await pods.changed(GRACE)


async def _connect(socket: aiohttp.ClientWebSocketResponse) -> None:
    """Copy between the terminal and a WebSocket until the pod closes it. Raises CommandError for a failed command."""
    loop = asyncio.get_running_loop()
    outgoing: asyncio.Queue[bytes] = asyncio.Queue()

    def typed() -> bool:
        data = os.read(0, _CHUNK)
        outgoing.put_nowait(bytes((_STDIN,)) + data if data else bytes((_CLOSE, _STDIN)))
        if not data:
            loop.remove_reader(0)
        return bool(data)

    def resized() -> None:
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(0)
            text = json.dumps({"Width": size.columns, "Height": size.lines})
            outgoing.put_nowait(bytes((_SIZE,)) + text.encode())

    async def send() -> None:
        while True:
            await socket.send_bytes(await outgoing.get())

    try:
        loop.add_reader(0, typed)
    except PermissionError:  # the kernel waits for no file and not for /dev/null: they can always be read
        while typed():
            pass
    loop.add_signal_handler(signal.SIGWINCH, resized)
    resized()
    sending = asyncio.create_task(send())
    try:
        async for message in socket:
            channel, data = message.data[0], message.data[1:]
            if channel in {_STDOUT, _STDERR}:
                os.write(1, data)
            elif channel == _STATUS:
                status = json.loads(data)
                if status.get("status") != "Success":
                    raise CommandError(status.get("message", "the connection with the pod failed"))
    finally:
        sending.cancel()
        loop.remove_reader(0)
        loop.remove_signal_handler(signal.SIGWINCH)
        await socket.close()


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    """Pass every key to the pod, and restore the terminal afterwards; nothing where the input is no terminal."""
    if not os.isatty(0):
        yield
        return
    before = termios.tcgetattr(0)
    try:
        tty.setraw(0, termios.TCSADRAIN)  # keeps what was typed before
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)

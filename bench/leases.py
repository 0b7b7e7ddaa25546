"""Whether leaders keep their Leases on a starved machine: ``python -m bench leases [--burners 30] [--seconds 120]``.

Two schedulers and two controllers run as processes beside an embedded API server, processes that only compute, and a client that
writes without pause. Measured are the changes of leader, the ends of services, and the longest time between two renewals of a
Lease: a leader ends itself after 6 s without one. Without ``--burners`` the load is that of the machine.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from chaos.stage import StageSettings, embedded_server, site_of
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import KubeError
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import LEASES, NAMESPACES

LOOK = 0.5
"""Seconds between two looks at the Leases, a quarter of the time between two renewals."""


@contextmanager
def _burning(count: int) -> Iterator[None]:
    """Run processes that only compute."""
    command = [sys.executable, "-c", "while True: pass"]
    burners = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


class _Leases:
    """What is seen of the Leases of our services."""

    def __init__(self) -> None:
        self.changes, self.longest = 0, 0.0
        self._seen: dict[str, Json] = {}

    def look(self, leases: Sequence[Json]) -> None:
        """Compare the Leases with those of the last look."""
        for lease in leases:
            name, spec = lease["metadata"]["name"], lease["spec"]
            before = self._seen.get(name)
            if before is not None:
                self.changes += spec.get("holderIdentity") != before.get("holderIdentity")
                times = [datetime.fromisoformat(each["renewTime"]) for each in (before, spec)]
                self.longest = max(self.longest, (times[1] - times[0]).total_seconds())
            self._seen[name] = spec


async def _write_without_pause(client: Client) -> int:
    """Change an object again and again until cancelled; return how often."""
    written = 0
    with suppress(asyncio.CancelledError):
        while True:
            with suppress(KubeError):
                patch = {"metadata": {"annotations": {"example.com/count": str(written)}}}
                await client.patch(NAMESPACES, None, "default", patch)
                written += 1
    return written


async def _measured(burners: int, seconds: float) -> dict[str, float]:
    leases = _Leases()
    with tempfile.TemporaryDirectory(prefix="volcanopy-leases-") as folder:
        async with (
            embedded_server(Path(folder)) as (connection, server),
            site_of(connection, StageSettings(run_services=True, nodes=2), server) as site,
        ):
            starts = sum(service.starts for service in site.services)
            writing = asyncio.create_task(_write_without_pause(site.client))
            with _burning(burners):
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    listed = (await site.client.list(LEASES, None)).items
                    leases.look([lease for lease in listed if lease["metadata"]["name"].startswith("volcanopy-")])
                    await asyncio.sleep(LOOK)
            writing.cancel()
            return {
                "changes of leader": float(leases.changes),
                "ends of services": float(sum(service.starts for service in site.services) - starts),
                "longest time between two renewals, s": leases.longest,
                "requests of the client": float(await writing),
            }


def run(options: Sequence[str] = ()) -> dict[str, float]:
    """Return the measures."""
    parser = argparse.ArgumentParser(prog="python -m bench leases")
    parser.add_argument("--burners", type=int, default=30, help="processes that only compute")
    parser.add_argument("--seconds", type=float, default=120.0)
    parsed = parser.parse_args(list(options))
    return asyncio.run(_measured(parsed.burners, parsed.seconds))

"""Is anybody there? Asked once, before the first request: a person does not want the patience that a service needs."""

import asyncio
from urllib.parse import urlsplit

from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import NoAnswer, describe

PATIENCE = 5.0
"""Seconds in which a server that is there takes a connection."""


async def reached(connection: Connection) -> None:
    """Return when the server takes connections; raises NoAnswer when it does not. Behind a proxy nothing is tried."""
    if connection.proxy:
        return
    url = urlsplit(connection.url)
    port = url.port or (80 if url.scheme == "http" else 443)
    try:
        async with asyncio.timeout(PATIENCE):
            _, writer = await asyncio.open_connection(url.hostname, port)
    except TimeoutError:
        raise _silent(connection, f"it took no connection within {PATIENCE:g} s") from None
    except ConnectionRefusedError:
        raise _silent(connection, "connection refused") from None
    except OSError as fault:
        raise _silent(connection, fault.strerror or describe(fault)) from None
    writer.close()


def _silent(connection: Connection, why: str) -> NoAnswer:
    whose = f" (context {connection.context})" if connection.context else ""
    return NoAnswer(f"{connection.url}{whose}", why, maybe_applied=False)

"""Connection check: fails at once when no server listens, instead of the retries that a service needs."""

import asyncio
from urllib.parse import urlsplit

from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import NoAnswer, describe

_TIMEOUT = 5.0
"""Seconds in which a running server accepts a connection."""


async def check_connection(connection: Connection) -> None:
    """Return when the server accepts connections, or behind a proxy without a check; raises NoAnswer."""
    if connection.proxy:
        return
    url = urlsplit(connection.url)
    port = url.port or (80 if url.scheme == "http" else 443)
    try:
        async with asyncio.timeout(_TIMEOUT):
            _, writer = await asyncio.open_connection(url.hostname, port)
    except TimeoutError:
        raise _no_answer(connection, f"no connection within {_TIMEOUT:g} s") from None
    except ConnectionRefusedError:
        raise _no_answer(connection, "connection refused") from None
    except OSError as fault:
        raise _no_answer(connection, fault.strerror or describe(fault)) from None
    writer.close()


def _no_answer(connection: Connection, reason: str) -> NoAnswer:
    context = f" (context {connection.context})" if connection.context else ""
    return NoAnswer(f"{connection.url}{context}", reason, maybe_applied=False)

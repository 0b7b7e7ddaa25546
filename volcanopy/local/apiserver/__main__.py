"""`python -m volcanopy.local.apiserver`: the embedded API server alone, for experiments."""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from volcanopy.local.apiserver.http.certificates import self_signed
from volcanopy.local.apiserver.server import ApiServer


async def serve(options: argparse.Namespace) -> None:
    """Serve until interrupted."""
    server = await ApiServer.start(
        host=options.host, port=options.port, tls=self_signed() if options.tls else None, persist=options.persist
    )
    if options.kubeconfig is not None:
        options.kubeconfig.touch(mode=0o600)
        options.kubeconfig.write_text(server.kubeconfig())
    sys.stdout.write(server.url + "\n")
    sys.stdout.flush()
    end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end.set)
    await end.wait()
    await server.stop()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m volcanopy.local.apiserver", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 chooses a free one")
    parser.add_argument("--tls", action="store_true", help="HTTPS with a certificate of its own; needs the token")
    parser.add_argument("--persist", type=Path, help="a file that keeps the objects across restarts")
    parser.add_argument("--kubeconfig", type=Path, help="where to write a kubeconfig for this server")
    options = parser.parse_args()
    try:
        import uvloop  # noqa: PLC0415 - not there on every platform
    except ImportError:
        asyncio.run(serve(options))
    else:
        uvloop.run(serve(options))


if __name__ == "__main__":
    main()

"""An API server of Kubernetes in one process, without nodes: ``embedded-apiserver``, ``python -m embedded_apiserver``."""

import argparse
import asyncio
import signal
import ssl
import sys
from pathlib import Path

import structlog

from embedded_apiserver.manifests import ManifestError, read
from embedded_apiserver.server import ApiServer, Tls
from embedded_apiserver.status_errors import ApiError
from embedded_apiserver.store.journal import JournalError


async def serve(options: argparse.Namespace) -> None:
    """Apply the manifests, then serve until interrupted."""
    manifests = read(options.filename)
    server = await ApiServer.start(
        host=options.host,
        port=options.port,
        tls=tls(options),
        persist=options.persist,
        repair=options.repair,
        fsync=options.fsync,
        rbac=options.rbac,
    )
    try:
        for manifest in manifests:
            await server.apply(manifest)
    except ApiError:
        await server.stop()
        raise
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


def tls(options: argparse.Namespace) -> Tls | None:
    """Return the TLS context of the certificate files; None without them."""
    if options.tls_cert_file is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(options.tls_cert_file, options.tls_private_key_file)
    return Tls(context, (options.tls_ca_file or options.tls_cert_file).read_text(encoding="utf-8"))


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(
        prog="embedded-apiserver", description="Serve the API of Kubernetes, without nodes."
    )
    parser.add_argument(
        "-f",
        "--filename",
        type=Path,
        action="append",
        default=[],
        help="file or folder with manifests to apply at start, such as CustomResourceDefinitions; repeatable",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 chooses a free one")
    parser.add_argument(
        "--tls-cert-file", type=Path, help="the certificate for HTTPS (PEM); requests then need the token"
    )
    parser.add_argument("--tls-private-key-file", type=Path, help="the key, if it is not in the certificate's file")
    parser.add_argument("--tls-ca-file", type=Path, help="the CA for the kubeconfig, if not the certificate itself")
    parser.add_argument("--persist", type=Path, help="a file that keeps the objects across restarts")
    parser.add_argument("--repair", action="store_true", help="keep what precedes a damaged record of the file")
    parser.add_argument("--fsync", action="store_true", help="force every change to the disk before it is acknowledged")
    parser.add_argument("--rbac", action="store_true", help="enforce the rights that roles and bindings give")
    parser.add_argument("--kubeconfig", type=Path, help="where to write a kubeconfig for this server")
    options = parser.parse_args()
    # JSON escapes control characters, which objects of clients may contain.
    lines: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*lines, structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        import uvloop  # noqa: PLC0415 - not there on every platform
    except ImportError:
        run = asyncio.run
    else:
        run = uvloop.run
    try:
        run(serve(options))
    except (ApiError, JournalError, ManifestError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()

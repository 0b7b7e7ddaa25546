"""A server that does nothing: `python -m bench.bare`. It reads each body and answers 201 with as many bytes as a pod has.

What aiohttp.web and uvloop alone cost on this machine at this moment: the measure beside which the API server's rates stand.
"""

import asyncio
import sys

import uvloop
from aiohttp import web

ANSWER = b"x" * 2000


async def answer(request: web.BaseRequest) -> web.Response:
    """The same for everybody."""
    await request.read()
    return web.Response(body=ANSWER, status=201, headers={"Content-Type": "application/json"})


async def serve() -> None:
    """Serve until killed."""
    runner = web.ServerRunner(web.Server(answer, access_log=None), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sys.stdout.write(f"http://127.0.0.1:{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve())

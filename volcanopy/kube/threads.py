"""Calls in daemon threads, which do not delay the end of the process."""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call a function in a daemon thread and await its result.

    Unlike with ``asyncio.to_thread``, a cancelled call does not delay the end of the process.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(give: Callable[[Any], None], value: Any) -> None:
        if not result.done():
            give(value)

    def work() -> None:
        give: Callable[[Any], None]
        try:
            give, value = result.set_result, context.run(function, *arguments, **named)
        except BaseException as fault:
            give, value = result.set_exception, fault  # type: ignore[assignment]
        # The loop may be closed by now.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(deliver, give, value)

    threading.Thread(target=work, name=getattr(function, "__name__", "apart"), daemon=True).start()
    return await result

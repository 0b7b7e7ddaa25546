"""Long reckoning beside the event loop, in a thread that nobody has to wait for when the process is to end."""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call a function in a thread, and wait for what it gives or raises.

    Who is cancelled while waiting leaves the thread to itself: unlike those of ``asyncio.to_thread``, which have to come
    to their end before the process can, it ends with the process.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def tell(give: Callable[[Any], None], what: Any) -> None:
        if not answer.done():
            give(what)

    def work() -> None:
        give: Callable[[Any], None]
        try:
            give, what = answer.set_result, context.run(function, *arguments, **named)
        except BaseException as fault:
            give, what = answer.set_exception, fault  # type: ignore[assignment]
        # The loop may be closed by now: then there is nobody to be told.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(tell, give, what)

    threading.Thread(target=work, name=getattr(function, "__name__", "apart"), daemon=True).start()
    return await answer

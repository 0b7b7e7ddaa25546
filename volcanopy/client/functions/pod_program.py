"""What a pod of an Executor runs: it reads a function and its arguments from the store, calls it and writes the outcome.

The text of this module is an argument of ``python -c``, so it uses the standard library alone. The image needs the
Python version of the submitting program, cloudpickle, and fsspec for a store with a URL.
"""

import json
import os
import pickle
import sys
import traceback
import types
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

STORE = "VOLCANOPY_STORE"
"""Variable with the folder or URL of one submission: its function, arguments and results."""
INDEX = "VC_ARRAY_INDEX"
FUNCTION, ABOUT = "function.pickle", "about.json"
FAILED = 1
"""Exit code of a function that raised an exception."""
REQUEUE = 85
"""Exit code of a pod that is to be created again, with the state of its checkpoint."""


def arguments_name(index: int) -> str:
    """Return the name of the file with the arguments of an index."""
    return f"arguments-{index}.pickle"


def outcome_name(index: int) -> str:
    """Return the name of the file with the outcome of an index: whether it returned, and its result or exception."""
    return f"outcome-{index}.pickle"


def read(store: str, name: str) -> bytes:
    """Return the content of a file of the store; raises FileNotFoundError."""
    if "://" in store:
        import fsspec  # noqa: PLC0415 - for URLs only

        with fsspec.open(f"{store}/{name}", "rb") as file:
            content: bytes = file.read()
        return content
    return Path(store, name).read_bytes()


def write(store: str, name: str, content: bytes) -> None:
    """Replace a file of the store as a whole: a program that is killed leaves the earlier one, or none."""
    if "://" in store:
        import fsspec  # noqa: PLC0415 - for URLs only

        with fsspec.open(f"{store}/{name}", "wb") as file:
            file.write(content)
        return
    folder = Path(store)
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f".{name}.{os.getpid()}.{os.uname().nodename}"
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(folder / name)


def version() -> str:
    """Return the version of Python that a pickled function needs: ``3.11``."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def outcome(store: str, index: int) -> tuple[bool, Any]:
    """Call the function; return whether it returned, and its result or the exception. Raises SystemExit of the function."""
    about = json.loads(read(store, ABOUT))
    if about["python"] != version():
        reason = f"the function was pickled by Python {about['python']}: use an image with that version"
        return False, RuntimeError(f"the pod has Python {version()}, {reason}")
    try:
        import cloudpickle  # noqa: F401, PLC0415 - pickled functions need it
    except ImportError:
        return False, RuntimeError("the Python of the pod lacks the package cloudpickle: install it there")
    try:
        function = pickle.loads(read(store, FUNCTION))
        arguments, keywords = pickle.loads(read(store, arguments_name(index)))
        result = function(*arguments, **keywords)
        return True, _awaited(result) if isinstance(result, types.CoroutineType) else result
    except Exception as error:
        return False, error


def _awaited(coroutine: Any) -> Any:
    import asyncio  # noqa: PLC0415 - 0.1 s, for coroutine functions only

    return asyncio.run(coroutine)


def pickled(returned: bool, value: Any, maximum: int) -> tuple[bool, bytes]:
    """Return the outcome as bytes, and whether it is a result.

    A value that cannot be pickled, or has more bytes than the maximum, becomes an exception; so does an exception whose
    class cannot be made from its pickled arguments.
    """
    try:
        dumps: Callable[[Any], bytes] = import_module("cloudpickle").dumps
    except ImportError:
        dumps = pickle.dumps
    note = "" if returned else "In the pod:\n" + "".join(traceback.format_exception(value))
    try:
        if not returned:
            value.add_note(note)
        content = dumps((returned, value))
        if not returned:
            pickle.loads(content)
    except Exception as error:
        reason = f"the {type(value).__name__} cannot be pickled: {error}"
        value = (
            TypeError(f"{reason}: return data, such as a list") if returned else RuntimeError(f"{value!r}; {reason}")
        )
        if note:
            value.add_note(note)
        return False, dumps((False, value))
    if len(content) > maximum:
        text = f"the result has {len(content):,} bytes, of {maximum:,} allowed: write it to a volume, return its path"
        return False, dumps((False, ValueError(text)))
    return returned, content


def main() -> int:
    """Run the index of this pod; return the exit code."""
    store, index = os.environ[STORE], int(os.environ[INDEX])
    returned, value = outcome(store, index)
    if not returned:
        traceback.print_exception(value)
    returned, content = pickled(returned, value, json.loads(read(store, ABOUT))["maximum"])
    try:
        write(store, outcome_name(index), content)
    except OSError as error:
        user = f"the pod's user {os.getuid()} must be able to write to this folder"
        sys.exit(f"{store}: {error.strerror}: {user}; where root runs `volcanopy local up`, add --run-as-root")
    return 0 if returned else FAILED


if __name__ == "__main__":
    sys.exit(main())

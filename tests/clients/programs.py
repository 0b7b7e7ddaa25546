"""Programs of clients that pods of process nodes run."""

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def seen_by_pods(programs: Iterable[Path]) -> Iterator[Path]:
    """A folder with these programs that pods of process nodes see: bubblewrap gives them a /tmp of their own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        for program in programs:
            shutil.copy2(program, folder)
        yield Path(folder)

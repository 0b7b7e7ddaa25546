"""What a killed process leaves is cleaned up by its guardian."""

import os
import select
import subprocess
import sys
from pathlib import Path

PARENT = """
import subprocess, sys, time
from pathlib import Path
from volcanopy_local.process.guardian import Guardian
folder = Path(sys.argv[1])
guardian = Guardian(folder)
kept, ended = (subprocess.Popen(["sleep", "1000"], start_new_session=True) for _ in range(2))
guardian.started(kept.pid)
guardian.started(ended.pid)
guardian.ended(ended.pid)
print(kept.pid, ended.pid, flush=True)
time.sleep(1000)
"""


def test_the_programs_and_files_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    (folder / "below").mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", PARENT, str(folder)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        kept, ended = map(int, parent.stdout.readline().split())
        program, guardian = os.pidfd_open(kept), os.pidfd_open(guardian_of(parent.pid))
        parent.kill()
        for descriptor in (program, guardian):
            assert select.select([descriptor], [], [], 30)[0]
            os.close(descriptor)
    assert not folder.exists()
    os.kill(ended, 0)  # its number is not the guardian's any more
    os.kill(ended, 9)


def guardian_of(pid: int) -> int:
    """The child that runs the guardian."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return next(int(child) for child in children if b"guardian.py" in Path(f"/proc/{child}/cmdline").read_bytes())

"""A notebook submits functions and jobs, and shows them, while its kernel runs an event loop."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

CELLS = (
    """
import volcanopy

executor = volcanopy.Executor("results", cpu=0.1)
call = executor.submit(pow, 2, 10)
call.result(timeout=400)
""",
    "[await other for other in executor.submit_array(abs, [-1, -2])]",
    "call",
    "call.job",
    """
job = await volcanopy.AsyncJob.attach(call.job.name)
job
""",
    'volcanopy.Job("true")',
    "executor.shutdown()",
)


def test_a_notebook_runs_functions_and_shows_their_jobs(
    processes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(processes))
    monkeypatch.setenv("HOME", str(tmp_path))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS])
    NotebookClient(
        notebook, timeout=500, kernel_name="python3", allow_errors=True, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs: list[Any] = [cell.outputs[-1] if cell.outputs else None for cell in notebook.cells]
    assert outputs[0].data["text/plain"] == "1024"
    assert outputs[1].data["text/plain"] == "[1, 2]"
    assert outputs[2].data["text/plain"].startswith("<FunctionJob pow-")
    for output, kind in ((outputs[2], "pow"), (outputs[3], "pow"), (outputs[4], "pow")):
        assert f"<b>{kind}-" in output.data["text/html"]
    assert outputs[4].data["text/plain"].startswith('<AsyncJob "pow-')
    assert outputs[5].evalue == "command: 'true' is one string: use a list, as ['true']"
    assert outputs[6] is None

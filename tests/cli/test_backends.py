"""Tools that submit jobs through volcanopy's backends, with their own programs."""

import copyreg
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
import submitit

from tests.docs.pages import ROOT, blocks
from volcanopy import Job


@pytest.fixture(scope="module", autouse=True)
def own_pickling() -> Iterator[None]:
    """Dask changes how exceptions of all classes are pickled; later tests of the same worker pickle as Python does."""
    with mock.patch.dict(copyreg.dispatch_table):
        yield


@pytest.fixture
def submitit_executor(processes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> submitit.AutoExecutor:
    """The executor that submitit chooses by itself where a cluster is named."""
    monkeypatch.setenv("KUBECONFIG", str(processes))
    executor = submitit.AutoExecutor(folder=tmp_path / "%j")
    assert executor.cluster == "volcanopy"
    executor.update_parameters(timeout_min=10, cpus_per_task=1, mem_gb=0.2, name="Of_submitit")
    return executor


def test_submitit_gets_results_and_logs(submitit_executor: submitit.AutoExecutor) -> None:
    def add(first: int, second: int) -> int:
        print("adding", flush=True)
        return first + second

    job = submitit_executor.submit(add, 5, 7)
    assert job.result() == 12
    assert "adding" in (job.stdout() or "")
    assert [part.result() for part in submitit_executor.map_array(add, [1, 2], [3, 4])] == [4, 6]


def test_submitit_gets_the_error_of_a_function(submitit_executor: submitit.AutoExecutor) -> None:
    def divide() -> float:
        return 1 / 0

    with pytest.raises(submitit.core.utils.FailedJobError, match="ZeroDivisionError"):
        submitit_executor.submit(divide).result()


def test_the_tasks_of_a_submitit_job_have_ranks(submitit_executor: submitit.AutoExecutor) -> None:
    def ranks() -> tuple[int, int, int]:
        environment = submitit.JobEnvironment()
        return environment.global_rank, environment.node, environment.local_rank

    submitit_executor.update_parameters(nodes=2, name="ranks")
    assert submitit_executor.submit(ranks).results() == [(0, 0, 0), (1, 1, 0)]


@pytest.mark.parametrize(("beginning", "printed"), [("import submitit", "1024\n"), ("from distributed", "6\n")])
def test_the_examples_of_the_docs_run(
    beginning: str,
    printed: str,
    processes: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(processes))
    texts = [block.text for block in blocks(ROOT / "docs/backends.md") if block.text.startswith(beginning)]
    assert len(texts) == 1
    exec(compile(texts[0], "docs/backends.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == printed


def test_submitit_cancels_a_job(submitit_executor: submitit.AutoExecutor) -> None:
    submitit_executor.update_parameters(cpus_per_task=4000)
    job = submitit_executor.submit(abs, -1)
    job.cancel()
    assert job.done(force_check=True)
    assert job.state == "CANCELLED"


def test_a_dask_cluster_scales_by_gangs_of_workers(processes: Path) -> None:
    # Imported here: they take two seconds, which each worker of pytest would need to collect the tests.
    from distributed import Client

    from volcanopy_backends.dask import VolcanopyCluster

    with (
        VolcanopyCluster(
            workers_per_job=2, memory="256Mi", host="127.0.0.1", name="dask", kubeconfig=processes
        ) as cluster,
        Client(cluster) as client,  # type: ignore[no-untyped-call]
    ):
        cluster.scale(2)
        client.wait_for_workers(2, timeout=120)
        assert client.gather(client.map(lambda number: number**2, range(4))) == [0, 1, 4, 9]
        assert sorted(worker["name"] for worker in client.scheduler_info()["workers"].values()) == ["0-0", "0-1"]
        assert [repr(job) for job in cluster.jobs] == ['<Job "dask-0": Running, 2 of 2 pods>']
    assert Job.attach("dask-0", kubeconfig=processes).last_phase == "Terminated"

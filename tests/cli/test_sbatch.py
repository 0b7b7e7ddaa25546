"""Batch scripts of Slurm become jobs, with a line for each of their options."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.run_commands import Run, run_in_process
from volcanopy.client.errors import CommandError
from volcanopy.client.jobs.sbatch import read_script


def script(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "job.sh"
    path.write_text("\n".join(("#!/bin/sh", *(f"#SBATCH {line}" for line in lines), "echo rank $SLURM_PROCID", "")))
    return path


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["--job-name=My_Run.2"], {"name": "my-run-2"}),
        (["-n 4", "-c 2", "--mem=8G"], {"replicas": 4, "cpu": "2", "memory": "8Gi"}),
        (
            ["--nodes=2 --ntasks-per-node=4", "--mem 16G", "--gres=gpu:a100:4"],
            {"replicas": 8, "memory": "4Gi", "gpus": 1},
        ),
        (["--ntasks=4", "--gpus=8"], {"gpus": 2}),
        (["--mem-per-cpu=500", "-c4"], {"memory": "2000Mi"}),
        (["-t 90"], {"deadline": "5400s"}),
        (["--time=1:30:00"], {"deadline": "5400s"}),
        (["--time=2-3"], {"deadline": "183600s"}),
        (["--time=1-02:03:04"], {"deadline": "93784s"}),
        (["--time=UNLIMITED"], {"deadline": None}),
        (["-p gpu", "--account=team"], {"queue": "gpu"}),
        (["--account=team"], {"queue": "team"}),
        (["--array=1-100%10"], {"array": "1-100%10"}),
        (["--array=7"], {"array": "7-7"}),
        (["--export=ALL,SEED=3,MODE=fast"], {"env": ["SEED=3", "MODE=fast"]}),
        (["--requeue"], {"max_retry": 3}),
    ],
)
def test_an_option_of_the_script_becomes_one_of_the_job(
    tmp_path: Path, lines: list[str], expected: dict[str, Any]
) -> None:
    options = read_script(script(tmp_path, *lines), []).options
    assert {name: getattr(options, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--dependency=afterok:7", "job.sh:2: --dependency: a job of equal pods cannot have it: use a job flow"),
        ("--array=1,3,7", "job.sh:2: --array: '1,3,7': use FIRST-LAST or FIRST-LAST%PARALLELISM"),
        ("--time=soon", "job.sh:2: --time: 'soon' is no time of Slurm: use minutes, H:M:S or D-H:M:S"),
        ("--mem=0", "job.sh:2: --mem: '0' is no amount of memory: use 500M or 4G"),
        ("-n many", "job.sh:2: --ntasks: 'many' is no whole number of at least 1"),
        ("--reservation=x", "job.sh:2: --reservation: not supported: leave it out"),
        ("--ntasks=3 --gpus=4", "job.sh:2: --gpus: 4 GPUs cannot be divided among 3 pods"),
        ("train", "job.sh:2: 'train' is no option of sbatch"),
        ("--ntasks", "job.sh:2: --ntasks needs a value"),
    ],
)
def test_what_a_job_cannot_have_is_one_sentence_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(CommandError) as caught:
        read_script(script(tmp_path, line), [])
    assert message in str(caught.value)


def test_options_after_the_first_command_are_comments(tmp_path: Path) -> None:
    path = script(tmp_path, "-n 2")
    path.write_text(path.read_text() + "#SBATCH -n 9\n")
    assert read_script(path, []).options.replicas == 2


def test_the_command_prints_what_the_options_became_and_the_manifest(tmp_path: Path) -> None:
    path = script(tmp_path, "--job-name=train", "-n 2", "--output=log.txt")
    path.write_text(path.read_text() + "srun python train.py\n")
    ended = run_in_process("sbatch", path, "--image", "busybox", "--dry-run=client", "-o", "yaml")
    assert ended.status == 0, ended.err
    assert ended.err.splitlines() == [
        "--job-name=train  --name train",
        "--ntasks=2        --replicas 2",
        "--output=log.txt  no effect: `volcanopy job logs` prints the output",
        "line 6: srun: a pod has none: each of the 2 pods runs the whole script, leave srun out",
    ]
    spec = yaml.safe_load(ended.out)["spec"]
    assert spec["tasks"][0]["replicas"] == 2
    assert spec["plugins"] == {"env": []}


def test_a_script_runs_with_its_array_index_on_process_nodes(processes: Path, tmp_path: Path) -> None:
    path = script(tmp_path, "--job-name=of-slurm", "--array=3-4", "--cpus-per-task=1", "--wait")
    path.write_text(path.read_text() + 'echo "index $SLURM_ARRAY_TASK_ID of $1"\n')
    ended = run_in_process("sbatch", path, "data", kubeconfig=processes)
    assert ended.status == 0, ended.err
    assert {"index 3 of data", "index 4 of data"} <= {line.rpartition("] ")[2] for line in ended.lines}


def test_a_script_that_does_not_exist_is_named(volcanopy: Run) -> None:
    assert "cannot read nowhere.sh: No such file or directory" in volcanopy("sbatch", "nowhere.sh").err

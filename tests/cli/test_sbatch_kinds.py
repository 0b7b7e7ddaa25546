"""Batch scripts of the kinds that users of Slurm have: each option and each line that differs is named."""

from pathlib import Path
from typing import Any

import pytest

from volcanopy.client.errors import CommandError
from volcanopy.client.jobs.sbatch import Script, read_script

LOGS = "no effect: `volcanopy job logs` prints the output"
NO_MAIL = "no effect: volcanopy sends no mail"

SERIAL = """#!/bin/bash -l
#SBATCH --job-name=concat        # name
#SBATCH --time=0-23:00:00
#SBATCH --mem=75Gb
#SBATCH --mail-type=END,FAIL
#SBATCH --mail-user=ana@example.org
##SBATCH --dependency=afterany:571091
#SBATCH -o logs/%x-%j.out
echo "job $SLURM_JOB_ID: $SLURM_JOB_NAME in $SLURM_SUBMIT_DIR"
cat "$1" > all.txt
"""
THREADS = """#!/bin/bash
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=12
#SBATCH --mem-per-cpu=7000M
#SBATCH --hint=nomultithread
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
./simulate
"""
ARRAY = """#!/bin/bash
#SBATCH -J sweep
#SBATCH --array=156,230,246%2
#SBATCH -n 1
#SBATCH -o out/%A_%a.out
#SBATCH -e out/%A_%a.err
#SBATCH --open-mode=append
Rscript run.R "$SLURM_ARRAY_TASK_ID" "$SLURM_ARRAY_TASK_COUNT"
"""
MPI_OF_ONE_NODE = """#!/bin/bash
#SBATCH -N 1
#SBATCH --ntasks-per-node=32
#SBATCH --mem-per-cpu=4000
#SBATCH --exclusive
mpirun -np "$SLURM_NTASKS" ./athena -i input
"""
MPI = """#!/bin/bash
#SBATCH -N 4
#SBATCH --ntasks-per-node=8
#SBATCH --mem=64G
#SBATCH --distribution=block:block
mkdir -p results
srun --mpi=pmix ./solver
"""
GPUS = """#!/bin/bash
#SBATCH --partition=gpu
#SBATCH --gres=gpu:a100:2
#SBATCH --cpus-per-gpu=8
#SBATCH --mem-per-gpu=32G
#SBATCH --time=1-00:00:00
#SBATCH --qos=normal
nvidia-smi -L
torchrun --nproc_per_node=2 train.py
"""
TRAINING = """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
head=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
srun torchrun --nnodes 2 --rdzv_endpoint $head:29500 train.py
"""
SIGNAL = """#!/bin/bash
#SBATCH --signal=B:SIGUSR1@120
#SBATCH --requeue
#SBATCH --get-user-env
trap 'touch resume; exit 85' USR1
python train.py &
wait
"""
CONSTRAINT = """#!/bin/bash
#SBATCH --ntasks=1
#SBATCH --constraint=skylake
./idr
"""
DEPENDENCY = """#!/bin/bash
#SBATCH --chdir=/data
#SBATCH --dependency=afterok:24592
./next
"""


def job(tmp_path: Path, text: str) -> Script:
    path = tmp_path / "script.sh"
    path.write_text(text)
    return read_script(path, [], 12345678)


@pytest.mark.parametrize(
    ("text", "expected", "results", "notes"),
    [
        (
            SERIAL,
            {"name": "concat-12345678", "replicas": 1, "cpu": "1", "memory": "75Gi", "deadline": "82800s"},
            ["--name concat-NUMBER", "--deadline 82800s", "--memory 75Gi", NO_MAIL, NO_MAIL, LOGS],
            [],
        ),
        (
            THREADS,
            {"name": "script-12345678", "replicas": 1, "cpu": "12", "memory": "84000Mi"},
            [
                *["one pod, which runs the script, --cpu 12"] * 3,
                "--memory 84000Mi",
                "no effect: the scheduler chooses nodes and cores",
            ],
            [],
        ),
        (
            ARRAY,
            {"array": "0-2%2", "replicas": 1},
            [
                "--name sweep-NUMBER",
                "--array 0-2%2 --restart Never, index in SLURM_ARRAY_TASK_ID",
                "one pod, which runs the script, --cpu 1",
                *[LOGS] * 3,
            ],
            [],
        ),
        (
            MPI_OF_ONE_NODE,
            {"replicas": 1, "cpu": "32", "memory": "125Gi"},
            [
                *["one pod, which runs the script, --cpu 32"] * 2,
                "--memory 125Gi",
                "no effect: request all CPUs of a node instead",
            ],
            [],
        ),
        (
            MPI,
            {"replicas": 32, "cpu": "1", "memory": "8Gi"},
            [*["--replicas 32, --cpu 1"] * 2, "--memory 8Gi", "no effect: the scheduler chooses nodes and cores"],
            [
                "line 7: srun: each of the 32 pods runs the whole script and its command once; options of srun have no effect"
            ],
        ),
        (
            GPUS,
            {"queue": "gpu", "gpus": 2, "cpu": "16", "memory": "64Gi", "deadline": "86400s"},
            [
                "--queue gpu",
                "--gpus 2",
                "--cpu 16",
                "--memory 64Gi",
                "--deadline 86400s",
                "no effect: the queue is that of --partition",
            ],
            [],
        ),
        (
            TRAINING,
            {"replicas": 2, "gpus": 4},
            [*["--replicas 2, --cpu 1"] * 2, "--gpus 4"],
            [
                "line 5: scontrol: a pod has no such program",
                "line 5: SLURM_JOB_NODELIST: not set in a pod",
                "line 6: srun: each of the 2 pods runs the whole script and its command once; options of srun have no effect",
            ],
        ),
        (
            SIGNAL,
            {"grace_period": "120s", "max_retry": 3},
            [
                "SIGTERM of the pod is sent on as USR1; it is killed 120 s later",
                "--max-retry 3",
                "no effect: a pod has the environment of its image; on process nodes this one",
            ],
            [],
        ),
    ],
)
def test_each_option_of_a_script_has_a_result_and_each_line_that_differs_a_note(
    tmp_path: Path, text: str, expected: dict[str, Any], results: list[str], notes: list[str]
) -> None:
    script = job(tmp_path, text)
    assert {name: getattr(script.options, name) for name in expected} == expected
    assert [directive.result for directive in script.directives] == results
    assert script.notes[:-1] == notes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            CONSTRAINT,
            "script.sh:3: --constraint: a job of equal pods cannot have it: leave it out, print the manifest by",
        ),
        (DEPENDENCY, "script.sh:3: --dependency: a job of equal pods cannot have it: use a job flow"),
        (MPI.replace("srun --mpi=pmix", "mpirun"), "script.sh:2: --nodes: the script starts nothing on 4 nodes"),
    ],
)
def test_what_a_job_cannot_have_ends_the_submission(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CommandError) as caught:
        job(tmp_path, text)
    assert message in str(caught.value)

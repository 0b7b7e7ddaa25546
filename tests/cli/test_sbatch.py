"""Batch scripts of Slurm become jobs, with a line for each of their options."""

import io
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.run_commands import COMMAND, Run, read_until, run_in_process, terminal
from volcanopy import Job
from volcanopy.cli.main import main
from volcanopy.client.errors import CommandError
from volcanopy.client.jobs import program as job_program
from volcanopy.client.jobs.sbatch import read_script, split

NUMBER = 12345678


def script(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "job.sh"
    path.write_text("\n".join(("#!/bin/sh", *(f"#SBATCH {line}" for line in lines), "echo rank $SLURM_PROCID", "")))
    return path


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], {"name": "job-12345678", "replicas": 1}),
        (["--job-name=My_Run.2"], {"name": "my-run-2-12345678"}),
        (["-n 4", "-c 2", "--mem=8G"], {"replicas": 1, "cpu": "8", "memory": "8Gi"}),
        (["-N 1 --ntasks-per-node=4", "--gres=gpu:a100:4"], {"replicas": 1, "cpu": "4", "gpus": 4}),
        (["--ntasks=4", "--gpus-per-task=2", "--mem-per-gpu=1G"], {"gpus": 8, "memory": "8Gi"}),
        (["--mem-per-cpu=1G", "-n 2", "-c 3"], {"cpu": "6", "memory": "6Gi"}),
        (["--signal=B:USR1@120"], {"grace_period": "120s"}),
        (["--container-image=python:3.12"], {"image": "python:3.12"}),
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
        (["--array=156,230,246%2"], {"array": "0-2%2"}),
        (["--array=0-20:5"], {"array": "0-4"}),
        (["--gpus=2", "--cpus_per_gpu=3", "--mem-per-cpu=1gb"], {"cpu": "6", "gpus": 2, "memory": "6Gi"}),
        (["--export=ALL,SEED=3,MODE=fast"], {"env": ["SEED=3", "MODE=fast"]}),
        (["--export=OF_THIS_SHELL,NOT_SET"], {"env": ["OF_THIS_SHELL=a b"]}),
        (["--gres=gpu:0"], {"gpus": 0}),
        (["--share --nice --propagate -c 2"], {"cpu": "2"}),
        (["--tasks=2 --out=%j.out --err=%j.err --job=short"], {"cpu": "2", "name": "short-12345678"}),
        (["--tasks-per-node=3"], {"cpu": "3"}),
        (["--requeue"], {"max_retry": 3}),
        (["--no-requeue"], {"max_retry": 1}),
    ],
)
def test_an_option_of_the_script_becomes_one_of_the_job(
    tmp_path: Path, lines: list[str], expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THIS_SHELL", "a b")
    options = read_script(script(tmp_path, *lines), [], NUMBER).options
    assert {name: getattr(options, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--dependency=afterok:7", "job.sh:2: --dependency: a job of equal pods cannot have it: use a job flow"),
        ("--array=1,x", "job.sh:2: --array: '1,x': use indexes as 1-100, 1,3,7 or 0-20:5"),
        ("--array=5-1", "job.sh:2: --array: '5-1': use FIRST-LAST or FIRST-LAST%PARALLELISM"),
        ("--array=0-99999999", "job.sh:2: --array: '0-99999999' has 100000000 indexes: use at most 1000000"),
        (
            "--array=0-90000:2",
            "job.sh:2: --array: 45001 indexes that do not follow each other are too long: use a range",
        ),
        ("--gres=shard:2", "job.sh:2: --gres: 'shard:2': only gpu is supported"),
        ("--partition=short,long", "job.sh:2: --partition: 'short,long': name one queue"),
        ("--time=soon", "job.sh:2: --time: 'soon' is no time of Slurm: use minutes, H:M:S or D-H:M:S"),
        ("--mem=0", "job.sh:2: --mem: 0 is all memory of a node: request an amount, such as 4G"),
        ("--mem=much", "job.sh:2: --mem: 'much' is no amount of memory: use 500M or 4G"),
        ("--cpus=4", "job.sh:2: --cpus: not supported: leave it out"),
        ("hetjob", "job.sh:2: a heterogeneous job: write a manifest with a task for each component"),
        ("-n many", "job.sh:2: --ntasks: 'many' is no whole number of at least 1"),
        ("--reservation=x", "job.sh:2: --reservation: not supported: leave it out"),
        (
            "--nodes=2",
            "job.sh:2: --nodes: the script starts nothing on 2 nodes: start its tasks by srun, or use 1 node",
        ),
        ("--signal=whenever@x", "job.sh:2: --signal: 'whenever@x' is no signal of sbatch: use B:USR1@60"),
        ("train", "job.sh:2: 'train' is no option of sbatch"),
        ("--ntasks", "job.sh:2: --ntasks needs a value"),
        ("--burst", "job.sh:2: --burst: not supported: leave it out"),
    ],
)
def test_what_a_job_cannot_have_is_one_sentence_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(CommandError) as caught:
        read_script(script(tmp_path, line), [], NUMBER)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["-n 4", "-c 2", "--mem=8G"], {"replicas": 4, "cpu": "2", "memory": "2Gi"}),
        (
            ["--nodes=2 --ntasks-per-node=4", "--mem 16G", "--gres=gpu:a100:4"],
            {"replicas": 8, "memory": "4Gi", "gpus": 1},
        ),
        (["--ntasks=4", "--gpus=8"], {"gpus": 2}),
        (["-n 2", "--gpus-per-task=2"], {"gpus": 2}),
    ],
)
def test_with_srun_each_task_is_a_pod(tmp_path: Path, lines: list[str], expected: dict[str, Any]) -> None:
    path = script(tmp_path, *lines)
    path.write_text(path.read_text() + "srun ./program\n")
    options = read_script(path, [], NUMBER).options
    assert {name: getattr(options, name) for name in expected} == expected
    path.write_text(path.read_text().replace("-n 4", "-n 3").replace("--ntasks=4", "--ntasks=3"))
    if "--gpus=8" in lines:
        with pytest.raises(CommandError, match=r"job.sh:3: --gpus: 8 GPUs cannot be divided among 3 pods"):
            read_script(path, [], NUMBER)


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_script_is_an_error(tmp_path: Path, text: str) -> None:
    """A shell variable that is empty, or a command before the pipe that failed."""
    path = tmp_path / "job.sh"
    path.write_text(text)
    with pytest.raises(CommandError, match=r"job.sh: the script is empty"):
        read_script(path, [], NUMBER)


def test_a_script_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """Editors of Windows write one."""
    path = script(tmp_path, "-n 2")
    path.write_text(path.read_text(), encoding="utf-8-sig")
    options = read_script(path, [], NUMBER).options
    assert options.cpu == "2"
    assert options.arguments is not None
    assert options.arguments[-1].startswith("#!/bin/sh\n")


def test_options_after_the_first_command_are_comments(tmp_path: Path) -> None:
    path = script(tmp_path, "-n 2")
    path.write_text(path.read_text() + "#SBATCH -n 9\n")
    assert read_script(path, [], NUMBER).options.cpu == "2"


def test_the_command_prints_what_the_options_became_and_the_manifest(tmp_path: Path) -> None:
    path = script(tmp_path, "--job-name=train", "-n 2", "--output=log.txt", "--mem=2G")
    path.write_text(path.read_text() + "srun python train.py\nscontrol show job\n#SBATCH --mem=9G\n")
    ended = run_in_process(
        "sbatch", path, "--image", "busybox", "--options", "--mem=4G", "--dry-run=client", "-o", "yaml"
    )
    assert ended.status == 0, ended.err
    *lines, name = ended.err.splitlines()
    assert lines == [
        "--job-name=train           --name train-NUMBER",
        "--ntasks=2                 --replicas 2, --cpu 1",
        "--output=log.txt           no effect: `volcanopy job logs` prints the output",
        "--mem=2G                   set again below",
        "--mem=4G                   --memory 2Gi",
        "--container-image=busybox  --image busybox",
        "line 7: srun: each of the 2 pods runs the whole script and its command once; options of srun have no effect",
        "line 8: scontrol: a pod has no such program",
        "line 9: #SBATCH --mem=9G: after the first command it is a comment, as for sbatch",
    ]
    body = yaml.safe_load(ended.out)
    assert name == f'job "{body["metadata"]["name"]}"'
    assert body["spec"]["tasks"][0]["replicas"] == 2
    assert body["spec"]["plugins"] == {"env": []}


def test_a_script_runs_with_its_array_index_on_process_nodes(processes: Path, tmp_path: Path) -> None:
    path = script(tmp_path, "--job-name=of-slurm", "--array=3-4", "--cpus-per-task=1", "--wait")
    path.write_text(path.read_text() + 'echo "index $SLURM_ARRAY_TASK_ID of $1"\n')
    for options, indexes in (("", {3, 4}), ("--array=2,9", {2, 9})):
        ended = run_in_process("sbatch", "--options", options, path, "data", kubeconfig=processes)
        assert ended.status == 0, ended.err
        lines = {line.rpartition("] ")[2] for line in ended.lines}
        assert {line for line in lines if line.startswith("index")} == {f"index {index} of data" for index in indexes}


def test_a_failed_index_is_not_run_again_as_for_slurm(processes: Path, tmp_path: Path) -> None:
    path = script(tmp_path, "--array=0-2", "--cpus-per-task=1", "--wait")
    path.write_text(path.read_text() + 'echo "index $SLURM_ARRAY_TASK_ID"\ntest $SLURM_ARRAY_TASK_ID != 1\n')
    ended = run_in_process("sbatch", path, kubeconfig=processes)
    assert ended.status == 1
    assert "is Failed: 2/3 required pods succeeded, 1 failed: pod job-" in ended.err
    indexes = [line.rpartition("] ")[2] for line in ended.lines if "index" in line]
    assert sorted(indexes) == ["index 0", "index 1", "index 2"]


def logs(processes: Path, path: Path, *words: str) -> list[str]:
    """Submit a script, wait for it, and return the sorted lines of its pods."""
    ended = run_in_process("sbatch", path, "--options", "--wait", *words, kubeconfig=processes)
    assert ended.status == 0, ended.err
    assert ended.lines[0].startswith("Submitted batch job ")
    return sorted(line.rpartition("] ")[2] for line in ended.lines[1:])


def test_srun_runs_its_command_once_in_each_pod(processes: Path, tmp_path: Path) -> None:
    path = script(tmp_path, "-N 2 --ntasks-per-node=1")
    path.write_text(f'{path.read_text()}srun -n 2 --mpi=pmix -u --exclusive sh -c "echo \\$0 \\$SLURM_NODEID" task\n')
    assert logs(processes, path) == ["rank 0", "rank 1", "task 0", "task 1"]


def test_a_script_without_srun_runs_once_with_all_cpus(processes: Path, tmp_path: Path) -> None:
    path = script(tmp_path, "-n 2", f"--chdir={tmp_path}")
    path.write_text(path.read_text() + 'echo "$SLURM_NTASKS $SLURM_CPUS_ON_NODE $PWD"\n')
    assert logs(processes, path) == [f"2 2 {tmp_path}", "rank 0"]


def test_the_signal_of_a_script_comes_before_its_pod_is_killed(tmp_path: Path) -> None:
    path = script(tmp_path, "--signal=B:USR1@60")
    path.write_text(path.read_text() + "trap 'echo saved; exit 7' USR1\necho ready\nwhile :; do sleep 0.01; done\n")
    command = [word.replace("$$", "$") for word in read_script(path, [], NUMBER).options.arguments or ()]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "VC_TASK_INDEX": "0"}
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline(), process.stdout.readline()]
        process.terminate()
        lines += process.stdout
    assert lines == ["rank 0\n", "ready\n", "saved\n"]
    assert process.returncode == 7


def test_a_script_that_ends_while_the_signal_is_sent_keeps_its_exit_code(tmp_path: Path) -> None:
    """`cat` ends with the script, which the shell that waits for `cat` reaps, too."""
    ends = tmp_path / "ends"
    os.mkfifo(ends)
    text = f"#!/bin/sh\nexec 3<>{ends}\ntrap 'exit 7' USR1\necho ready\nwhile :; do sleep 0.01; done\n"
    command = [
        word.replace("$$", "$") for word in job_program.script(text, [], "", f"exec 4<{ends}; kill -USR1 $!; cat <&4")
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
    assert process.returncode == 7


def test_links_to_volcanopy_are_the_programs_of_slurm(
    processes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(processes))

    def program(*words: str) -> str:
        monkeypatch.setattr("sys.argv", [str(tmp_path / words[0]), *words[1:]])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return capsys.readouterr().out

    path = script(tmp_path)
    path.write_text(path.read_text() + "sleep 1000\n")
    number = program("sbatch", "--parsable", "-J", "Of_Slurm", str(path)).strip()
    job = Job.attach(f"of-slurm-{number}", kubeconfig=processes)
    job.wait("running", timeout=120)
    assert f"{number} R default\n" in program("squeue", "--noheader", "-o", "%i %t %P", "-u", "nobody", "-t", "all")
    assert program("squeue", "-j", number).split()[:3] == ["JOBID", "PARTITION", "NAME"]
    program("scancel", number)
    job.wait("finished", timeout=120)
    assert program("squeue", "-h", "-o", "%i %T", "-j", number) == f"{number} CANCELLED\n"
    assert number not in program("squeue")


@pytest.mark.parametrize("option", ["--test-only", "--bell", "-i"])
def test_an_unknown_option_does_not_take_the_script_for_its_value(option: str, tmp_path: Path) -> None:
    name = {"-i": "--input"}.get(option, option)
    with pytest.raises(CommandError, match=f"^command line: {name}: not supported: leave it out$"):
        split([option, str(script(tmp_path))])


@pytest.mark.parametrize("program", ["squeue -j", "scancel"])
def test_numbers_without_a_job_are_an_error_after_those_that_have_one_are_cancelled(
    processes: Path,
    tmp_path: Path,
    program: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(processes))

    def called(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", [str(tmp_path / words[0]), *words[1:]])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capsys.readouterr()

    unknown = "volcanopy: no job of a batch script has the number 1: see `squeue -t all`\n"
    assert called(*program.split(), "1") == (1, "", unknown)
    status, _, error = called(*program.split(), "1_2")
    assert (status, error) == (2, "volcanopy: 1_2: name jobs by the numbers that sbatch printed\n")
    path = script(tmp_path)
    path.write_text(path.read_text() + "sleep 1000\n")
    number = called("sbatch", "--parsable", str(path))[1].strip()
    job = Job.attach(f"job-{number}", kubeconfig=processes)
    if program == "scancel":
        assert called("scancel", "1", number)[::2] == (1, unknown)
        job.wait("finished", timeout=120)
        assert job.last_phase == "Terminated"
    else:
        assert called("squeue", "-h", "-o", "%i", "-j", f"1,{number}") == (0, f"{number}\n", "")
        called("scancel", number)


def test_the_queue_and_the_image_of_the_command_replace_those_of_the_script(tmp_path: Path) -> None:
    path = script(tmp_path, "--partition=short,long", "--container-image=old")
    ended = run_in_process("sbatch", "--queue", "mine", "--image", "new", "--dry-run=client", "-o", "yaml", path)
    assert ended.status == 0, ended.err
    assert "--partition=mine        --queue mine" in ended.err.splitlines()
    spec = yaml.safe_load(ended.out)["spec"]
    assert spec["queue"] == "mine"
    assert spec["tasks"][0]["template"]["spec"]["containers"][0]["image"] == "new"


def test_without_a_script_it_is_that_of_wrap_or_of_the_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapped = read_script(None, [], NUMBER, ["-c", "2", "--wrap", 'echo "$SLURM_JOBID of $SLURM_NPROCS"'])
    assert (wrapped.options.name, wrapped.options.cpu) == ("wrap-12345678", "2")
    command = [word.replace("$$", "$") for word in wrapped.options.arguments or ()]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "12345678 of 1\n"
    with pytest.raises(CommandError, match=r"--wrap: the command is the script: leave out .*job.sh"):
        read_script(script(tmp_path), [], NUMBER, ["--wrap=true"])
    monkeypatch.setattr("sys.stdin", io.StringIO("#!/bin/sh\n#SBATCH -n 3\ntrue\n"))
    read = read_script(None, [], NUMBER)
    assert (read.options.name, read.options.cpu) == ("stdin-12345678", "3")


def test_a_terminal_without_a_script_is_told_that_standard_input_is_read(kubeconfig: Path) -> None:
    with terminal([*COMMAND, "sbatch"], {"KUBECONFIG": str(kubeconfig)}) as (process, end):
        read_until(end, process, "reading the script from standard input, to its end")


def test_a_script_that_does_not_exist_is_named(volcanopy: Run) -> None:
    assert "cannot read nowhere.sh: No such file or directory" in volcanopy("sbatch", "nowhere.sh").err

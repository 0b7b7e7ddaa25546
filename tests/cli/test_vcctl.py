"""The command lines of vcctl and of Volcano's other programs, said in the form of volcanopy."""

import shlex
import sys

import pytest

from volcanopy.cli import main as cli
from volcanopy.cli.vcctl import translated
from volcanopy.client.errors import CommandError

CASES = {
    "vcctl job run -N train -i nginx -m 2 -r 3": (
        "job run --name train --image nginx -r 3 -m 2 --cpu 1000m --memory 100Mi"
    ),
    "vcctl job run --name=train -R cpu=2,memory=1Gi,nvidia.com/gpu=1 -L cpu=4 -S volcano": (
        "job run --name train --image busybox -r 1 -m 1 --cpu 2 --cpu-limit 4 --memory 1Gi --memory-limit 0"
        " --resource nvidia.com/gpu=1"
    ),
    "vcctl job run -f job.yaml -n team": "job submit -f job.yaml -n team",
    "vcctl job list -S volcano -q q1 --all-namespaces": "job list -q q1 -A",
    "vcctl job view -N train -n team": "job describe train -n team",
    "vcctl job view --name train": "job describe train",
    "vcctl job suspend -N train": "job suspend train",
    "vcctl job resume -Ntrain": "job resume train",
    "vcctl job delete -n team -N train": "job delete train -n team",
    "vcctl queue create -n q1 -w 3": "queue create q1 --weight 3",
    "vcctl queue delete -n q1": "queue delete q1",
    "vcctl queue get --name q1": "queue get q1",
    "vcctl queue operate -n q1 -a close": "queue close q1",
    "vcctl queue operate -n q1 -w 4": "queue update q1 --weight 4",
    "vcctl queue operate -n q1 -a update -w 4": "queue update q1 --weight 4",
    "vcctl jobflow describe -N f": "jobflow get f -o yaml",
    "vcctl jobflow create --file f.yaml": "jobflow create -f f.yaml",
    "vcctl jobtemplate delete -N t -n team": "jobtemplate delete t -n team",
    "vsub -n train -N team -i nginx -c 'echo hello'": (
        "job run --name train --image nginx -r 1 -m 1 --cpu 1000m --memory 100Mi -n team -- sh -c 'echo hello'"
    ),
    "vjobs": "job list",
    "vjobs -N team": "job list -n team",
    "vjobs -n train -N team": "job describe train -n team",
    "vqueues": "queue list",
    "vqueues -n q1": "queue get q1",
    "vcancel -n train": "job delete train",
    "vsuspend -n train -N team": "job suspend train -n team",
    "vresume -n train": "job resume train",
}


def said(line: str) -> list[str] | None:
    program, *arguments = shlex.split(line)
    return translated(program, arguments)


@pytest.mark.parametrize(("line", "ours"), CASES.items(), ids=list(CASES))
def test_a_command_of_volcano_is_said_in_the_form_of_volcanopy(line: str, ours: str) -> None:
    assert said(line) == shlex.split(ours)


def test_our_parser_accepts_every_translation() -> None:
    root = cli.all_commands()
    for line in CASES:
        ours = said(line)
        assert ours is not None
        group, name, *arguments = ours
        subcommand = root.commands[group].commands[name]  # type: ignore[attr-defined]
        subcommand.make_context(name, arguments)


@pytest.mark.parametrize(
    "line",
    [
        "volcanopy job run -i --name a",
        "volcanopy job run --image busybox -- prog -N 3",
        "volcanopy job list -n team",
        "volcanopy job delete train -n team",
        "volcanopy job delete train -N team",
        "volcanopy queue create q1 -w 3",
        "volcanopy queue get q1",
        "volcanopy job view --help",
        "volcanopy jobflow create -f f.yaml",
        "volcanopy",
    ],
)
def test_a_command_in_the_form_of_volcanopy_is_left_as_it_is(line: str) -> None:
    assert said(line) is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("vcctl job delete -N ''", "the name is missing"),
        ("vcctl job list -S other", "jobs are scheduled by volcanopy or volcano"),
        ("vcctl queue operate -n q1 -a drop", "use open, close, or update with --weight"),
        ("vcctl queue create -n q1 -S Closed", "volcanopy queue close"),
        ("vjobs --unknown", "vjobs has the options"),
    ],
)
def test_what_has_no_equivalent_is_one_sentence(line: str, words: str) -> None:
    with pytest.raises(CommandError, match=words):
        said(line)


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_of_a_program_of_volcano_names_its_own_options(option: str) -> None:
    with pytest.raises(CommandError, match=r"vsub has the options --command .* -n -r") as fault:
        said(f"vsub {option}")
    assert fault.value.status == 0


@pytest.mark.parametrize("called", ["volcanopy", "vcancel"])
def test_the_new_form_is_printed_once_on_standard_error(
    called: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["job", "view", "-N", "train"] if called == "volcanopy" else ["-n", "train"]
    monkeypatch.setattr(sys, "argv", [called, *arguments])
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    with pytest.raises(SystemExit) as ended:
        cli.main()
    printed = capsys.readouterr()
    assert ended.value.code != 0, "there is no cluster"
    assert printed.out == ""
    note, *_ = printed.err.splitlines()
    theirs = "vcctl job view -N train" if called == "volcanopy" else f"{called} -n train"
    assert note.startswith(f"volcanopy: `{theirs}` is now `volcanopy ")
    assert printed.err.count("is now") == 1

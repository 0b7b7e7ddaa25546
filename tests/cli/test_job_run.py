"""The manifest of ``job run``: resources, arrays, scripts, and combinations that exclude each other."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from volcanopy.client.errors import CommandError
from volcanopy.client.jobs import program
from volcanopy.client.jobs.manifest import manifest
from volcanopy.client.jobs.options import JobOptions
from volcanopy.client.jobs.program import array, literal


def container(**options: Any) -> dict[str, Any]:
    spec = manifest(JobOptions(**{"image": "i", **options}))["spec"]["tasks"][0]["template"]["spec"]
    result: dict[str, Any] = spec["containers"][0]
    return result


def test_limits_are_the_requests_unless_options_set_them() -> None:
    assert container(cpu="2", memory="1Gi", gpus=1)["resources"] == {
        "requests": {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"},
        "limits": {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"},
    }
    assert container(cpu="500m", cpu_limit="2", memory_limit="0")["resources"] == {
        "requests": {"cpu": "500m", "memory": "100Mi"},
        "limits": {"cpu": "2"},
    }


def test_an_array_is_a_task_with_parallelism_and_indexes_of_its_own() -> None:
    spec = manifest(JobOptions(image="i", array="1-100%10"))["spec"]
    (task,) = spec["tasks"]
    assert (task["replicas"], task["minAvailable"], task["parallelism"], task["maxRetry"]) == (100, 1, 10, 300)
    assert (spec["minAvailable"], spec["minSuccess"], spec["plugins"]) == (1, 100, {"env": ["--first-index=1"]})
    assert task["template"]["spec"]["restartPolicy"] == "OnFailure"
    assert "parallelism" not in manifest(JobOptions(image="i", array="0-3"))["spec"]["tasks"][0]


def test_a_script_is_passed_as_it_is_with_its_arguments(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("echo $(date) $HOME $1")
    shell, option, _, first_line, text, argument = container(script=path, arguments=["$x"])["command"]
    assert (shell, option, argument) == ("sh", "-c", "$$x")
    assert first_line == "#!/bin/sh"
    assert text == literal("#!/bin/sh\necho $(date) $HOME $1")
    path.write_text("#!/usr/bin/env python3\nprint(1)")
    assert container(script=path)["command"][3:] == ["#!/usr/bin/env python3", "#!/usr/bin/env python3\nprint(1)"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"array": "5-3"}, "--array: '5-3' is empty: LAST must be at least FIRST, and PARALLELISM at least 1"),
        ({"array": "x"}, "--array: 'x' is invalid: use FIRST-LAST or FIRST-LAST%PARALLELISM, as 1-100%10"),
        ({"array": "1-2", "replicas": 3}, "--array: sets the number of pods: leave out --replicas and --min"),
        ({"interactive": True, "replicas": 2}, "--interactive: runs one pod: leave out --replicas, --array"),
        ({"image": ""}, "specify --image, or a command to run on a process node"),
        ({"image": "", "here": True}, "specify --image, or a command to run on a process node"),
        ({"cpu": "2", "cpu_limit": "1"}, "--cpu-limit: 1 is less than the request 2"),
        ({"memory_limit": "x"}, "--memory-limit: "),
        ({"script": Path("absent")}, "--script: cannot read absent: No such file or directory"),
    ],
)
def test_an_invalid_option_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(CommandError) as raised:
        container(**options)
    assert str(raised.value).startswith(message)


def test_the_indexes_of_an_array_include_the_last() -> None:
    assert (array("7-7").count, array("1-100%10").parallelism) == (1, 10)


@pytest.mark.parametrize("signal", ["", "kill -USR1 $!"])
def test_an_interpreter_that_the_image_lacks_is_named_without_the_script(signal: str) -> None:
    command = [
        word.replace("$$", "$") for word in program.script("#!/no/interpreter -l\necho secret\n", ["a"], "", signal)
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 127
    assert done.stderr.startswith("#!/no/interpreter -l: ")
    assert "secret" not in done.stderr


def test_a_script_has_its_arguments() -> None:
    command = [word.replace("$$", "$") for word in program.script('printf "%s;" "$@"', ["a b", "$c"])]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "a b;$c;"

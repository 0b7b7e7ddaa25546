"""``volcanopy usage --decayed`` of manifests, and wrong options."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.run_commands import run_in_process
from volcanopy.kube.client.kinds import Json


def a_queue(name: str, cpu: str, time: str, **spec: object) -> Json:
    return {
        "apiVersion": "scheduling.volcanopy.io/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"usage": {"cpu": cpu}, "creditTime": time},
    }


def test_usage_of_manifests_is_that_at_the_time_of_the_newest_status(tmp_path: Path) -> None:
    queues = [a_queue("a", "7200", "2030-01-01T00:00:00Z"), a_queue("b", "10800", "2030-01-02T00:00:00Z", weight=3)]
    file = tmp_path / "queues.yaml"
    file.write_text(yaml.dump_all(queues))
    outcome = run_in_process("usage", "--decayed", "-f", str(file))
    assert [line.split() for line in outcome.lines] == [
        ["QUEUE", "USER", "SHARE", "CPU-HOURS", "USED", "FACTOR"],
        ["a", "-", "25.0", "%", "1.00", "25.0", "%", "1.00"],
        ["b", "-", "75.0", "%", "3.00", "75.0", "%", "1.00"],
    ]
    document = json.loads(run_in_process("usage", "--decayed", "-f", str(file), "-o", "json").out)
    assert (document["kind"], document["time"], document["resource"]) == ("DecayedUsage", "2030-01-02T00:00:00Z", "cpu")
    assert [item["usage"] for item in document["items"]] == [{"cpu": 3600.0}, {"cpu": 10800.0}]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--resource", "cpu"), "--resource needs --decayed"),
        (("-f", "queues.yaml"), "-f needs --decayed"),
        (("--decayed", "--by", "user"), "--by: not with --decayed, which lists all queues and their users"),
        (("--decayed", "--since", "7d"), "--since: not with --decayed, which lists all queues and their users"),
        (("--decayed", "-n", "default"), "-n: not with --decayed, which lists all queues and their users"),
    ],
)
def test_options_of_one_report_are_not_accepted_by_the_other(words: tuple[str, ...], sentence: str) -> None:
    outcome = run_in_process("usage", *words)
    assert (outcome.status, outcome.sentence()) == (2, sentence)


def test_manifests_without_a_queue_are_an_error(tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    file.write_text("{apiVersion: v1, kind: Node, metadata: {name: n1}}")
    assert "no object of kind Queue" in run_in_process("usage", "--decayed", "-f", str(file)).sentence()

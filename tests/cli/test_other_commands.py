"""Pods, flows, templates and versions, against a cluster at work."""

import json
from pathlib import Path

import yaml

from tests.cli.run_commands import Run, has_unschedulable_reason, run_in_process, until
from tests.e2e.world import EXAMPLES, JOBS, PODS, batch_job, example
from volcanopy import __version__


def test_create_list_describe_and_delete_a_flow(volcanopy: Run, tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(yaml.safe_dump_all(example("10-flow")))
    made = volcanopy("jobflow", "create", "-f", file)
    assert (made.status, made.err) == (0, "")
    kinds = [line.split(".")[0] for line in made.lines]
    assert kinds == ["jobtemplate"] * 4 + ["jobflow"], "what a flow refers to is made first"
    again = volcanopy("jobflow", "create", "-f", file)
    assert again.status == 1
    assert "already exists" in again.err

    headings, row = volcanopy("jobflow", "list").lines
    assert headings.split() == ["NAME", "PHASE", "COMPLETED", "AGE", "REASON"]
    assert row.startswith("pipeline")
    api = volcanopy("jobflow", "describe", "pipeline").out
    for part in ("pipeline-clean-more", "clean,clean-more", "Failure Policy:    stop", "Critical Path:     fetch -> "):
        assert part in api
    assert json.loads(volcanopy("jobflow", "get", "pipeline", "-o", "json").out)["kind"] == "JobFlow"

    assert [line.split()[0] for line in volcanopy("jobtemplate", "list").lines] == [
        "NAME",
        "clean",
        "evaluate",
        "fetch",
        "serve",
    ]
    assert "busybox:1.37" in volcanopy("jobtemplate", "describe", "clean").out
    assert volcanopy("jobtemplate", "get", "fetch", "-o", "name").out == "jobtemplate.flow.volcanopy.io/fetch\n"

    gone = volcanopy("jobflow", "delete", "-f", file)
    assert (gone.status, len(gone.lines)) == (0, 5)
    assert volcanopy("jobflow", "list").err == 'No jobflows found in namespace "test-other-commands".\n'
    assert volcanopy("jobtemplate", "delete", "fetch").status == 1


def test_a_file_without_an_object_of_the_kind_is_rejected(volcanopy: Run) -> None:
    refused = volcanopy("jobtemplate", "create", "-f", EXAMPLES / "02-gang")
    assert refused.status == 2
    assert refused.sentence().startswith("no JobTemplate in ")


def test_pods_have_a_reason(volcanopy: Run, kubeconfig: Path) -> None:
    bodies = [batch_job("large", 4, "5"), batch_job("small", 2, "1", duration="forever")]
    assert volcanopy("job", "submit", "-f", "-", stdin=yaml.safe_dump_all(bodies)).status == 0
    assert volcanopy("job", "wait", "small", "--for=running").status == 0
    until(kubeconfig, JOBS, has_unschedulable_reason("large"))
    until(kubeconfig, PODS, lambda pods: sum("Insufficient" in str(pod["status"]) for pod in pods) > 0)

    pods = volcanopy("pod", "list", "--job", "small").lines
    assert pods[0].split() == ["NAME", "JOB", "TASK", "READY", "STATUS", "RESTARTS", "NODE", "AGE"]
    assert [row.split()[:6] for row in pods[1:]] == [
        [f"small-task-{number}", "small", "task", "1/1", "Running", "0"] for number in range(2)
    ]
    assert "Insufficient cpu" in volcanopy("pod", "list", "-o", "wide").out
    assert (
        volcanopy("pod", "list", "--queue", "nope").err == 'No pods of jobs found in namespace "test-other-commands".\n'
    )
    assert 'job "smal" not found in namespace' in volcanopy("pod", "list", "-j", "smal").sentence()

    assert volcanopy("job", "delete", "--all").status == 0


def test_versions_of_program_cluster_and_api_groups(volcanopy: Run, tmp_path: Path) -> None:
    said = volcanopy("version")
    assert (said.status, said.err) == (0, "")
    assert said.lines[0] == f"volcanopy {__version__}"
    assert said.lines[1].startswith("cluster v1.")
    assert "serves batch.volcanopy.io/v1alpha1" in said.lines
    document = json.loads(volcanopy("version", "-o", "json").out)
    assert document["groups"]["scheduling.volcanopy.io"] == ["v1beta1"]
    alone = run_in_process("--version")
    assert (alone.status, alone.out, alone.err) == (0, f"volcanopy {__version__}\n", "")
    away = run_in_process("version", home=tmp_path)
    assert (away.status, away.out) == (0, f"volcanopy {__version__}\n"), "that there is no cluster is no failure"
    assert away.sentence().startswith("no cluster is configured")

"""``volcanopy job`` against a cluster at work: what a person does with a job, from its start to its end."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.cli.run_commands import COMMAND, Outcome, Run, has_unschedulable_reason, run_in_process, until
from tests.e2e.world import JOBS, batch_job
from volcanopy.kube.client.kinds import Json


def submitted(run: Run, *bodies: Json) -> None:
    done = run("job", "submit", "-f", "-", stdin=yaml.safe_dump_all(bodies))
    assert (done.status, done.err) == (0, "")


def test_run_wait_get_describe_and_delete(volcanopy: Run) -> None:
    made = volcanopy("job", "run", "--name", "hello", "--image", "busybox", "--", "echo", "-n", "hello")
    assert made == Outcome(0, "batchjob.batch.volcanopy.io/hello created\n", "")
    job = json.loads(volcanopy("job", "get", "hello", "-o", "json").out)
    container = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    assert container["command"] == ["echo", "-n", "hello"]
    assert container["resources"]["requests"] == container["resources"]["limits"] == {"cpu": "1", "memory": "100Mi"}
    assert "managedFields" not in job["metadata"]

    waited = volcanopy("job", "wait", "hello", "--for=completed", "--timeout=60s")
    assert waited == Outcome(0, "batchjob.batch.volcanopy.io/hello condition met\n", "")
    headings, row = volcanopy("job", "list").lines[:2]
    assert headings.split() == ["NAME", "PHASE", "READY", "MIN", "TOTAL", "QUEUE", "AGE", "REASON"]
    assert row.split()[:6] == ["hello", "Completed", "1", "1", "1", "default"]
    assert 'the command ["echo", "-n", "hello"]' in volcanopy("job", "logs", "hello").out
    assert volcanopy("job", "list", "-o", "name").out == "batchjob.batch.volcanopy.io/hello\n"

    api = volcanopy("job", "describe", "hello").out
    for part in (
        "Phase:             Completed, Succeeded",
        "hello-main-0",
        "1/1 ready, minimum 1",
        "Events:",
    ):
        assert part in api
    assert volcanopy("job", "delete", "batchjob.batch.volcanopy.io/hello").out.endswith("/hello deleted\n")
    assert 'job "hello" not found' in volcanopy("job", "get", "hello").sentence()


def test_run_with_follow_fails_when_the_job_fails(volcanopy: Run) -> None:
    words = ("job", "run", "--image", "x", "--annotation", "sim.volcanopy.io/duration=100ms", "--follow")
    good = volcanopy(*words, "--name", "short", "-r", "2")
    assert (good.status, good.err) == (0, "")
    assert good.lines[0] == "batchjob.batch.volcanopy.io/short created"
    assert {line.split("]")[0] for line in good.lines[1:]} == {"[pod/short-main-0/main", "[pod/short-main-1/main"}
    bad = volcanopy(*words, "--name", "wrong", "--annotation", "sim.volcanopy.io/exit-code=3")
    assert bad.status == 1
    assert bad.sentence().startswith('job "wrong" is Failed: ')
    for name in ("short", "wrong"):
        volcanopy("job", "delete", name)


def test_following_a_job_that_waits_tells_why_on_standard_error(volcanopy: Run, kubeconfig: Path) -> None:
    words = ["job", "run", "--name", "waits", "--image", "x", "--cpu", "9", "--follow", "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen([*COMMAND, *words], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if " waits: " in line:
                break
        process.kill()
    assert lines[0].startswith("Warning: spec.tasks[0]")
    assert "can never start" in lines[0] or "no node" in lines[0]
    assert lines[-1] == 'volcanopy: job "waits" waits: 0/3 nodes are available: 3 Insufficient cpu\n'
    volcanopy("job", "delete", "waits")


def test_a_pod_on_a_simulated_node_accepts_no_terminal(volcanopy: Run) -> None:
    forever = ("--annotation", "sim.volcanopy.io/duration=forever")
    refused = volcanopy("job", "run", "--name", "talks", "--image", "x", *forever, "--interactive")
    assert refused.sentence() == (
        'pod "talks-main-0" accepts no connection: its container has no terminal, or its node is simulated and runs no program'
    )
    volcanopy("job", "delete", "talks")


@pytest.mark.parametrize("text", ["", "one\ntwo\n"], ids=["/dev/null", "file"])
def test_an_input_that_is_no_terminal_is_sent_to_its_end(processes: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "typed").write_text(text)
    words = ["job", "run", "--interactive", "--cpu", "100m", "--kubeconfig", str(processes), "--", "cat"]
    with Path(tmp_path / "typed" if text else os.devnull).open() as typed:
        done = subprocess.run([*COMMAND, *words], stdin=typed, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("Connected with pod ")
    assert {"one", "two"} & set(done.stdout.split()) == set(text.split())


def test_a_client_dry_run_needs_no_cluster_and_prints_a_manifest(volcanopy: Run) -> None:
    words = ["job", "run", "--name", "dry", "--image", "i", "--min", "2", "-r", "3", "--dry-run=client"]
    offline = run_in_process(*words, "-o", "yaml")
    assert (offline.status, offline.err) == (0, "")
    body = yaml.safe_load(offline.out)
    assert (body["kind"], body["spec"]["minAvailable"], body["spec"]["tasks"][0]["replicas"]) == ("BatchJob", 2, 3)
    assert run_in_process(*words).out == "batchjob.batch.volcanopy.io/dry created (dry run)\n"
    tried = volcanopy("job", "submit", "-f", "-", "--dry-run=server", stdin=offline.out)
    assert tried.out == "batchjob.batch.volcanopy.io/dry created (server dry run)\n"
    assert volcanopy("job", "get", "dry").status == 1, "a dry run makes nothing"


def test_a_plan_shows_when_a_job_would_start_and_creates_nothing(volcanopy: Run) -> None:
    large = volcanopy("job", "run", "--name", "large", "--image", "i", "--cpu", "9", "--plan")
    assert large.status == 0
    assert large.lines[0].startswith("job test-job-commands/large never starts [")
    assert large.lines[1:] == [
        '  starts with: 1 more node like "node-1" with 9 cpu instead of 8',
        "  starts with: request at most 8 cpu per pod instead of 9",
    ]
    document = json.loads(
        volcanopy(
            "job", "submit", "-f", "-", "--plan", "-o", "json", stdin=yaml.safe_dump(batch_job("small", 1, "1"))
        ).out
    )
    assert [job["result"] for job in document["jobs"]] == ["starts now"]
    assert volcanopy("job", "get", "large").status == volcanopy("job", "get", "small").status == 1


def test_a_plan_of_a_job_that_admission_rejects_fails(volcanopy: Run) -> None:
    rejected = volcanopy("job", "run", "--name", "lost", "--image", "i", "--queue", "nowhere", "--plan")
    assert rejected.status == 1
    assert rejected.lines[0].startswith("BatchJob test-job-commands/lost rejected by admission: spec.queue: ")
    assert "admission rejects 1 object: BatchJob test-job-commands/lost" in rejected.err


def test_a_plan_gives_the_pods_of_a_new_job_devices_by_the_template_that_they_name(volcanopy: Run) -> None:
    api = "resource.k8s.io/v1"
    device_class = {"apiVersion": api, "kind": "DeviceClass", "metadata": {"name": "board"}, "spec": {}}
    pool = {"name": "boards", "generation": 1, "resourceSliceCount": 1}
    boards = {"driver": "boards.example.com", "nodeName": "node-1", "pool": pool, "devices": [{"name": "b0"}]}
    device_slice = {"apiVersion": api, "kind": "ResourceSlice", "metadata": {"name": "boards"}, "spec": boards}
    devices = {"requests": [{"name": "board", "exactly": {"deviceClassName": "board"}}]}
    template = {"apiVersion": api, "kind": "ResourceClaimTemplate", "metadata": {"name": "one-board"}}
    held = batch_job("held", 1, "1", suspend=True)
    submitted(volcanopy, device_class, device_slice, template | {"spec": {"spec": {"devices": devices}}}, held)
    claims = [{"name": "board", "resourceClaimTemplateName": "one-board"}]
    for pods, start in ((1, "starts now"), (2, "never")):
        job = batch_job("boards", pods, "1")
        job["spec"]["tasks"][0]["template"]["spec"]["resourceClaims"] = claims
        planned = volcanopy("job", "submit", "-f", "-", "--plan", "-o", "json", stdin=yaml.safe_dump(job))
        assert [answer["result"] for answer in json.loads(planned.out)["jobs"]] == [start]
    volcanopy("job", "delete", "held")


def test_a_submitted_file_is_created_then_unchanged_then_configured(volcanopy: Run, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    body = batch_job("file", 2, "1", duration="forever", minAvailable=1, task={"minAvailable": 1})
    file.write_text(yaml.safe_dump(body))
    said = [volcanopy("job", "submit", "-f", file).out.split()[-1] for _ in range(2)]
    body["spec"]["tasks"][0]["replicas"] = 3
    file.write_text(yaml.safe_dump(body))
    said.append(volcanopy("job", "submit", "-f", file).out.split()[-1])
    assert said == ["created", "unchanged", "configured"]
    assert volcanopy("job", "delete", "-f", file).status == 0


def test_an_invalid_manifest_is_rejected_before_any_request(volcanopy: Run, tmp_path: Path) -> None:
    good, wrong = batch_job("good", 1, "1"), batch_job("wrong", 1, "1", minAvailabel=1)
    file = tmp_path / "jobs.yaml"
    file.write_text(yaml.safe_dump_all([good, wrong]))
    refused = volcanopy("job", "submit", "-f", file)
    assert refused.status == 2
    assert refused.sentence().startswith(f"{file}, document 2 (BatchJob wrong): spec.minAvailabel: Unknown field")
    assert volcanopy("job", "get", "good").status == 1
    unknown = volcanopy("job", "submit", "-f", "-", stdin=yaml.safe_dump(batch_job("lost", 1, "1", queue="nowhere")))
    assert unknown.status == 1
    assert "nowhere" in unknown.sentence()


def test_a_waiting_job_has_a_reason_in_list_logs_and_wait(volcanopy: Run, kubeconfig: Path) -> None:
    submitted(volcanopy, batch_job("large", 4, "5"))
    until(kubeconfig, JOBS, has_unschedulable_reason("large"))
    why = "4 pods must start together, 3 can be placed: 0/3 nodes are available: 3 Insufficient cpu"
    api = volcanopy("job", "wait", "large", "--for=condition=Pending", "--timeout", "30s")
    assert api.status == 0
    late = volcanopy("job", "wait", "large", "--for=running", "--timeout", "2s")
    assert late.status == 1
    assert late.sentence() == f'timed out waiting for job "large" to be running: it is Pending: {why}'
    assert volcanopy("job", "list", "--phase", "pending").lines[1].endswith(why)
    logs = volcanopy("job", "logs", "large")
    assert logs.status == 1
    assert 'pod "large-task-0" has not started: it has no node yet (and 3 more)' in logs.sentence()
    assert volcanopy("job", "delete", "large").status == 0


def test_wait_ends_when_the_phase_becomes_impossible(volcanopy: Run) -> None:
    submitted(volcanopy, batch_job("fails", 1, "1", duration="50ms", exit_code="1"))
    ended = volcanopy("job", "wait", "fails", "--for", "completed", "--timeout", "30s")
    assert ended.status == 1
    assert ended.sentence().startswith('job "fails" cannot become Completed: it is Failed: ')
    assert volcanopy("job", "wait", "fails", "--for=phase=Failed").status == 0
    assert volcanopy("job", "wait", "fails", "--for=finished").status == 0
    volcanopy("job", "delete", "fails")


def test_commands_suspend_resume_restart_and_terminate_a_job(volcanopy: Run) -> None:
    submitted(volcanopy, batch_job("steady", 2, "1", duration="forever"))
    assert volcanopy("job", "wait", "steady", "--for=running").status == 0
    for verb, phase in (
        ("suspend", "Aborted"),
        ("resume", "Running"),
        ("restart", "Running"),
        ("terminate", "Terminated"),
    ):
        words = ["--wait", "--timeout", "30s", "--reason", f"to see it {verb}"]
        done = volcanopy("job", verb, "steady", *words)
        assert (done.status, done.err) == (0, ""), verb
        assert volcanopy("job", "wait", "steady", f"--for=phase={phase}").status == 0, verb
    conditions = json.loads(volcanopy("job", "get", "steady", "-o", "json").out)["status"]["conditions"]
    said = {condition["type"]: condition["message"] for condition in conditions}
    assert said["Terminated"] == "to see it terminate"
    late = volcanopy("job", "suspend", "steady")
    assert late.status == 1
    sentence = 'job "steady" is Terminated: only jobs in phase Pending, Running or Restarting can be suspended'
    assert late.sentence() == sentence
    volcanopy("job", "delete", "steady")


def test_a_job_that_its_spec_suspends_is_not_said_to_be_resumed(volcanopy: Run) -> None:
    submitted(volcanopy, batch_job("later", 1, "1", suspend=True))
    assert volcanopy("job", "wait", "later", "--for=suspended").status == 0
    assert volcanopy("job", "list", "--phase", "Suspended").lines[1].split()[:2] == ["later", "Suspended"]
    resumed = volcanopy("job", "resume", "later")
    assert resumed.status == 1
    assert resumed.sentence() == 'job "later" is suspended by its spec: set spec.suspend to false'
    assert volcanopy("job", "resume", "--all").out == ""
    volcanopy("job", "delete", "later")


def test_scale_lowers_the_minimum_of_a_job_with_one_task(volcanopy: Run) -> None:
    """`job run --min` gives one to the job as well."""
    volcanopy("job", "run", "--name", "shrinks", "--image", "i", "--replicas", "4", "--min", "2")
    rejected = volcanopy("job", "scale", "shrinks", "--replicas", "1").sentence()
    assert rejected.endswith("use --replicas 2 or more, or lower it with --min")
    assert volcanopy("job", "scale", "shrinks", "--replicas", "1", "--min", "1").out.endswith("/shrinks scaled\n")
    spec = json.loads(volcanopy("job", "get", "shrinks", "-o", "json").out)["spec"]
    assert (spec["minAvailable"], spec["tasks"][0]["minAvailable"], spec["tasks"][0]["replicas"]) == (1, 1, 1)
    volcanopy("job", "delete", "shrinks")


def test_scale_changes_an_elastic_job_and_rejects_impossible_numbers(volcanopy: Run) -> None:
    submitted(volcanopy, batch_job("elastic", 2, "1", duration="forever", minAvailable=1, task={"minAvailable": 1}))
    assert volcanopy("job", "scale", "elastic", "--replicas", "3").out.endswith("/elastic scaled\n")
    assert volcanopy("job", "get", "elastic").lines[1].split()[3:5] == ["1", "3"]
    none = volcanopy("job", "scale", "elastic", "--replicas", "0")
    assert (none.status, "use --replicas 1 or more" in none.sentence()) == (2, True)
    assert 'has no task "ps", only task' in volcanopy("job", "scale", "elastic", "-r", "2", "-t", "ps").sentence()
    volcanopy("job", "delete", "elastic")


def test_scale_names_the_pods_that_would_be_too_few(volcanopy: Run) -> None:
    submitted(volcanopy, batch_job("pair", 2, "1", duration="forever", minAvailable=2))
    rejected = volcanopy("job", "scale", "pair", "--replicas", "1").sentence()
    assert 'job "pair" has minAvailable 2 and would have 1 pod: use --replicas 2 or more' in rejected
    volcanopy("job", "delete", "pair")


def test_logs_are_followed_until_the_job_has_ended(volcanopy: Run) -> None:
    task = {"name": "late", "dependsOn": {"name": ["task"]}}
    body = batch_job("chatty", 2, "1", duration="300ms")
    body["spec"]["tasks"].append({**body["spec"]["tasks"][0], "replicas": 1, **task})
    submitted(volcanopy, body)
    said = volcanopy("job", "logs", "chatty", "-f")
    assert (said.status, said.err) == (0, "")
    ends = sorted(line.split("]")[0][1:] for line in said.lines if "ended with exit code 0" in line)
    assert ends == ["pod/chatty-late-0/main", "pod/chatty-task-0/main", "pod/chatty-task-1/main"]
    item = volcanopy("job", "logs", "chatty", "--task", "task", "--index", "1", "--tail", "1").lines
    assert len(item) == 1
    assert item[0].startswith("simulated: ended with exit code 0"), "one pod alone needs no prefix"
    assert volcanopy("job", "logs", "chatty", "--task", "nope").sentence() == (
        '--task: job "chatty" has no task "nope", only task, late'
    )
    volcanopy("job", "delete", "chatty")


def test_missing_names_are_reported_after_the_others(volcanopy: Run) -> None:
    submitted(volcanopy, *(batch_job(f"many-{name}", 1, "1", duration="50ms") for name in "ab"))
    got = volcanopy("job", "get", "many-a", "many-x", "many-b", "-o", "name")
    assert got.status == 1
    assert [line.rpartition("/")[2] for line in got.lines] == ["many-a", "many-b"]
    assert 'job "many-x" not found' in got.sentence()
    assert "did you mean" in got.sentence()
    gone = volcanopy("job", "delete", "many-a", "many-x", "many-b")
    assert (gone.status, len(gone.lines)) == (1, 2)
    assert volcanopy("job", "delete", "many-a", "--ignore-not-found") == Outcome(0, "", "")
    assert volcanopy("job", "list", "-q", "nope") == Outcome(
        0, "", 'No jobs in queue "nope" found in namespace "test-job-commands".\n'
    )
    elsewhere = volcanopy("job", "get", "many-a", "-n", "default")
    assert 'job "many-a" not found in namespace "default"' in elsewhere.sentence()

"""``volcanopy plan``: text and JSON output, and errors."""

import gc
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.run_commands import Outcome, run_in_process, run_program
from tests.whatif.asking import job
from volcanopy.api import names
from volcanopy.cli import whatif
from volcanopy.cli.manifests import Manifest, read
from volcanopy.cli.plan import PlanOptions, plan_with
from volcanopy.client.errors import CommandError
from volcanopy_testing.notation import NOW

WORLD = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}}
- {apiVersion: scheduling.volcanopy.io/v1beta1, kind: Queue, metadata: {name: default}, spec: {weight: 1}}
- apiVersion: scheduling.volcanopy.io/v1beta1
  kind: PodGroup
  metadata: {name: small, namespace: lab}
  spec: {minMember: 1}
  status: {phase: Inqueue}
- apiVersion: v1
  kind: Pod
  metadata: {name: small-0, namespace: lab, annotations: {scheduling.k8s.io/group-name: small}}
  spec: {schedulerName: volcanopy, containers: [{name: main, resources: {requests: {cpu: 1}}}]}
  status: {phase: Pending}
---
apiVersion: scheduling.volcanopy.io/v1beta1
kind: PodGroup
metadata: {name: large, creationTimestamp: 2030-01-01T00:00:00Z}
spec: {minMember: 5, minResources: {cpu: 50}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: unrelated}
"""


NODE_TEXT = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {allocatable: {cpu: 4}}"


def plan(*arguments: str, stdin: str = "") -> Outcome:
    return run_in_process("plan", *arguments, stdin=stdin)


def test_no_garbage_is_collected_while_manifests_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "world.yaml").write_text(WORLD)
    collects: list[bool] = []

    def watched(files: list[str]) -> list[Manifest]:
        collects.append(gc.isenabled())
        return read(files)

    monkeypatch.setattr("volcanopy.cli.plan.read", watched)
    plan_with([str(tmp_path)], PlanOptions())
    assert [*collects, gc.isenabled()] == [False, True]


def test_the_plan_has_bindings_and_reasons() -> None:
    """As a process of its own: the others, in this one, need not load the scheduler each time."""
    run = run_program("plan", "-f", "-", stdin=WORLD)
    assert run.returncode == 0
    assert run.stdout.splitlines()[0] == "bind lab/small-0 -> n1"
    assert "podgroup large Pending Unschedulable: " in run.stdout
    assert run.stderr == "volcanopy: ignored 1 ConfigMap: not read by the scheduler\n"


def test_a_file_of_brackets_alone_is_an_error_at_once(tmp_path: Path) -> None:
    file = tmp_path / "deep.yaml"
    file.write_text("[" * 100_000)
    with pytest.raises(CommandError, match="invalid YAML: more than 200 levels of nesting"):
        read([str(file)])


def test_the_json_form_is_a_plan_document(tmp_path: Path) -> None:
    (tmp_path / "world.yaml").write_text(WORLD)
    run = plan("-f", str(tmp_path), "-o", "json")
    document = json.loads(run.out)
    assert (document["apiVersion"], document["kind"]) == ("volcanopy.io/v1alpha1", "Plan")
    assert document["effects"][0] == {"effect": "Bind", "pod": "lab/small-0", "node": "n1"}
    assert {effect["effect"] for effect in document["effects"]} == {"Bind", "SetPodGroup", "Explain", "SetQueue"}


def test_json_of_kubectl_is_read() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}}
    run = plan("-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "NodeList", "items": [node]}))
    assert (run.status, run.out) == (0, "")
    assert run.err == "volcanopy: nothing to schedule\n"


@pytest.mark.parametrize(
    ("arguments", "stdin", "sentence"),
    [
        (["-f", "nowhere.yaml"], "", "volcanopy: cannot read nowhere.yaml: No such file or directory"),
        (["-f", "-"], "a: [", "volcanopy: standard input: line 1: invalid YAML"),
        (["-f", "-"], f"a: {'9' * 5000}", "volcanopy: standard input: a value cannot be read: Exceeds the limit"),
        (
            ["-f", "-"],
            "- 1",
            "volcanopy: standard input, document 1: not a mapping: a manifest has apiVersion and kind",
        ),
        (["-f", "-"], "kind: Pod", "volcanopy: standard input, document 1: apiVersion is missing"),
        (
            ["-f", "-"],
            "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {allocatable: {cpu: 4x}}",
            "volcanopy: standard input, document 1 (Node n): status.allocatable.cpu: '4x' is not a quantity",
        ),
        (
            ["-f", "-"],
            "apiVersion: scheduling.volcanopy.io/v1beta1\nkind: Queue\nmetadata: {name: q}\nspec: {capability: {cpu: x}}\n---\n"
            + NODE_TEXT,
            "volcanopy: standard input, document 1 (Queue q): spec.capability.cpu: 'x' is not a quantity",
        ),
        (
            ["-f", "-"],
            "apiVersion: scheduling.volcanopy.io/v1beta1\nkind: Queue\nmetadata: {name: q}\nspec: {weight: 9223372036854775808}",
            "volcanopy: standard input, document 1 (Queue q): spec.weight must be a whole number of 64 bits",
        ),
        (
            ["-f", "-"],
            "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: s}\n"
            "spec: {driver: d, devices: [{name: a, attributes: {capacity: {string: x}}, capacity: {memory: {value: 4x}}}]}",
            "volcanopy: standard input, document 1 (ResourceSlice s): spec.devices[0].capacity.memory: '4x' is not a quantity",
        ),
        (
            ["-f", "-"],
            "apiVersion: scheduling.volcanopy.io/v1beta1\nkind: PodGroup\nmetadata: {name: n}\nspec: {minMember: '3'}",
            "volcanopy: standard input, document 1 (PodGroup n): spec.minMember must be a whole number, not text",
        ),
        (["-f", "-", "--now", "tomorrow"], "{}", "volcanopy: standard input, document 1: apiVersion is missing"),
        (["-f", "-", "--now", "tomorrow"], "", "volcanopy: --now: 'tomorrow' is not an RFC 3339 time"),
    ],
)
def test_bad_input_is_one_sentence_and_never_a_traceback(arguments: list[str], stdin: str, sentence: str) -> None:
    run = plan(*arguments, stdin=stdin)
    assert run.status in {1, 2}
    assert run.out == ""
    assert run.err.startswith(sentence), run.err
    assert run.err.count("\n") == 1


def test_an_invalid_configuration_is_reported_with_key_and_suggestion(tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text("actions: 'enqueue, alocate'\ntiers: []\n")
    run = plan("-f", "-", "--config", str(config), stdin=WORLD)
    assert run.status == 1
    assert run.err == f"volcanopy: {config}: actions: unknown action 'alocate', did you mean 'allocate'?\n"


def test_the_order_of_the_objects_does_not_matter() -> None:
    documents = WORLD.split("---")
    assert plan("-f", "-", stdin="---".join(reversed(documents))).out == plan("-f", "-", stdin=WORLD).out


NEW_JOB = """
apiVersion: batch.volcanopy.io/v1alpha1
kind: BatchJob
metadata: {name: wide}
spec:
  tasks:
  - name: w
    replicas: 2
    template: {spec: {containers: [{name: main, image: x, resources: {requests: {cpu: 3}}}]}}
"""
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n2"},
    "status": {"allocatable": {"cpu": 4, "pods": 9}},
}


def files(folder: Path, **texts: str) -> list[str]:
    """Write files; return their paths."""
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    return [str(folder / f"{name}.yaml") for name in texts]


def test_a_new_job_is_planned_with_remedies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = files(tmp_path, world=WORLD, job=NEW_JOB)
    plan_with(paths, PlanOptions(as_json=True))
    (small, large, wide) = sorted(json.loads(capsys.readouterr().out)["jobs"], key=lambda job: str(job["podGroup"]))[
        ::-1
    ]
    assert (small["name"], small["result"], small["nodes"]) == ("small", "starts now", ["n1"])
    assert (large["name"], large["result"], wide["name"], wide["result"]) == ("wide", "never", "large", "never")
    remedy = next(remedy for remedy in large["remedies"] if remedy["text"] == '1 more node like "n1"')
    assert remedy["confirmed"]
    assert [body["kind"] for body in remedy["apply"]] == ["Node"]


def test_a_world_of_nodes_alone_has_the_default_queue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = json.dumps(NODE) + "\n---\n" + json.dumps(NODE | {"metadata": {"name": "n1"}})
    plan_with(files(tmp_path, nodes=nodes, job=NEW_JOB), PlanOptions())
    output = capsys.readouterr()
    assert "job wide starts now on n1, n2" in output.out.splitlines()
    assert (
        output.err == 'volcanopy: queue "default" is in no manifest: planned with the one that the scheduler creates\n'
    )


def test_pod_groups_without_a_queue_have_the_default_queue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    without = "\n".join(line for line in WORLD.splitlines() if "kind: Queue" not in line)
    plan_with(files(tmp_path, world=without), PlanOptions())
    output = capsys.readouterr()
    assert output.out.startswith("bind lab/small-0 -> n1\n")
    assert 'queue "default" is in no manifest' in output.err


def test_keys_of_a_manifest_are_text_as_kubectl_reads_them(tmp_path: Path) -> None:
    (path,) = files(
        tmp_path, node="apiVersion: v1\nkind: Node\nmetadata: {name: n, labels: {true: a, 2: b, 2030-01-01: c}}\n"
    )
    (manifest,) = read([path])
    assert manifest.body["metadata"]["labels"] == {"true": "a", "2": "b", "2030-01-01": "c"}


def test_new_queues_and_hypernodes_are_reviewed_by_admission(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rejected queue is not there for those below it; queues that an API server has stored are not reviewed."""
    queues = {
        "below": {"parent": "above"},
        "above": {"weight": 2},
        "heavy": {"weight": -1},
        "orphan": {"parent": "heavy"},
        "stored": {"weight": -1},
    }
    objects: list[dict[str, Any]] = [
        {"kind": "Queue", "metadata": {"name": name, "uid": "u" if name == "stored" else ""}, "spec": spec}
        for name, spec in queues.items()
    ]
    member = {"type": "Node", "selector": {"regexMatch": {"pattern": "("}}}
    rack: dict[str, Any] = {"kind": "HyperNode", "metadata": {"name": "rack"}, "spec": {"tier": 1, "members": [member]}}
    versions = {"Queue": names.SCHEDULING_V1BETA1, "HyperNode": names.TOPOLOGY_V1ALPHA1}
    new = "\n---\n".join(json.dumps({"apiVersion": versions[item["kind"]], **item}) for item in [*objects, rack])
    with pytest.raises(CommandError, match=r"^admission rejects 3 objects: HyperNode rack, Queue heavy, Queue orphan$"):
        plan_with(files(tmp_path, world=WORLD, new=new), PlanOptions())
    rejected = [line for line in capsys.readouterr().out.splitlines() if "rejected by admission" in line]
    assert [line.partition(": Invalid value: ")[0] for line in rejected] == [
        "HyperNode rack rejected by admission: spec.members[0].selector.regexMatch.pattern",
        "Queue heavy rejected by admission: spec.weight",
        'Queue orphan rejected by admission: spec.parent: Not found: queue "heavy": create it first',
    ]


def test_manifests_without_nodes_get_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan_with(files(tmp_path, job=NEW_JOB), PlanOptions())
    assert "volcanopy: no manifest is a Node, so no pod can be placed: add -f FILE" in capsys.readouterr().err


def test_each_remedy_starts_the_job_by_the_objects_to_apply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = files(tmp_path, world=WORLD, job=NEW_JOB)
    plan_with(paths, PlanOptions(as_json=True))
    wide = next(job for job in json.loads(capsys.readouterr().out)["jobs"] if job["name"] == "wide")
    assert len(wide["remedies"]) > 1
    for remedy in wide["remedies"]:
        if remedy["delete"] or remedy.get("configuration"):
            continue
        applied = files(tmp_path, applied=json.dumps({"apiVersion": "v1", "kind": "List", "items": remedy["apply"]}))
        plan_with([*paths, *applied], PlanOptions())
        assert "job wide starts now" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        (f" note.{names.WALLTIME}=2h", f"in about 2 h, {NOW + timedelta(hours=2):%Y-%m-%d %H:%M:%S} UTC (walltime)"),
        ("", "unknown: job now declares no run time"),
    ],
)
def test_a_job_that_starts_after_others_has_an_estimated_start(note: str, expected: str) -> None:
    answer = job(f"node n1 cpu=4\njob now phase=Running{note}: 1 x cpu=4 on=n1\njob next: 1 x cpu=4", "next")
    lines = list(whatif.job_lines(answer, NOW))
    assert lines[0].startswith('job next starts after job "now" (cpu 4) [nodes]: ')
    assert lines[1] == f"  estimated start {expected}"


def test_pods_that_are_left_out_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods = "".join(
        f"---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{{scheduler} containers: [{{name: m}}]}}}}\n"
        for name, scheduler in (("bare", "schedulerName: volcanopy,"), ("a", ""), ("b", ""), ("c", ""), ("d", ""))
    )
    plan_with(files(tmp_path, world=WORLD, pods=pods), PlanOptions())
    assert capsys.readouterr().err.splitlines()[1:] == [
        'volcanopy: ignored 4 pods with schedulerName "default-scheduler": a, b, c and 1 more',
        "volcanopy: ignored 1 pod without a PodGroup: bare",
    ]


def test_the_next_job_of_a_cron_job_is_planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = yaml.safe_load(NEW_JOB)
    spec = {"schedule": "0 3 * * *", "jobTemplate": {"spec": body["spec"]}}
    cron = json.dumps(body | {"kind": "CronBatchJob", "metadata": {"name": "nightly"}, "spec": spec})
    plan_with(files(tmp_path, world=WORLD, cron=cron), PlanOptions(now="2030-01-02T00:00:00Z", as_json=True))
    output = capsys.readouterr()
    planned = "CronBatchJob default/nightly: the job that is due at 2030-01-02 03:00:00 UTC is planned as of now"
    assert output.err.splitlines()[-1] == f"volcanopy: {planned}"
    assert any(job["name"].startswith("nightly-") for job in json.loads(output.out)["jobs"])


def test_a_malformed_quantity_of_a_new_job_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandError, match=r"^admission rejects 1 object: BatchJob wide$"):
        plan_with(files(tmp_path, world=WORLD, job=NEW_JOB.replace("cpu: 3", "cpu: 50x")), PlanOptions())
    assert (
        "BatchJob wide rejected by admission: spec.tasks[0].template.spec: '50x' is not a quantity: "
        "must be a number with an optional suffix, such as 500m, 2 or 1.5Gi"
    ) in capsys.readouterr().out.splitlines()


STORED: dict[str, Any] = {
    "apiVersion": "batch.volcanopy.io/v1alpha1",
    "kind": "BatchJob",
    "metadata": {"name": "odd", "namespace": "lab", "uid": "u"},
    "spec": {
        "tasks": [{"name": "w", "replicas": 1, "template": {"spec": {"containers": [{"name": "m", "image": "i"}]}}}]
    },
}
CONTAINERS = ("tasks", 0, "template", "spec", "containers")


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("status",), 5, "status: Invalid value: 5"),
        (("status", "state"), 7, "status.state: Invalid value: 7"),
        (("spec",), 3, "spec: Invalid value: 3"),
        (("spec", "tasks", 0), 3, "spec.tasks[0]: Invalid value: 3"),
        (("spec", *CONTAINERS), 3, "spec.tasks[0].template.spec.containers must be a list, not a whole number"),
        (
            ("spec", *CONTAINERS, 0, "resources"),
            {"requests": {"cpu": "5x"}},
            "spec.tasks[0].template.spec.containers[0].resources.requests.cpu: '5x' is not a quantity",
        ),
    ],
)
def test_a_field_of_a_stored_job_that_cannot_be_read_is_named(
    tmp_path: Path, path: tuple[str | int, ...], value: Any, expected: str
) -> None:
    body = json.loads(json.dumps(STORED | {"status": {}}))
    place = body
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(CommandError, match=re.escape(f"odd.yaml, document 1 (BatchJob lab/odd): {expected}")):
        plan_with(files(tmp_path, odd=json.dumps(body)), PlanOptions())


def test_stored_pod_groups_of_volcano_keep_their_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An ended one waits for nothing, and the phase of a running one is not written again."""
    ended = """
    {apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: ended, uid: e}, spec: {minMember: 1},
     status: {phase: Completed}}
    """
    running = """
    apiVersion: v1
    kind: List
    items:
    - apiVersion: scheduling.volcano.sh/v1beta1
      kind: PodGroup
      metadata: {name: running, uid: r, creationTimestamp: 2030-01-01T00:00:00Z}
      spec: {minMember: 1}
      status: {phase: Running, running: 1}
    - apiVersion: v1
      kind: Pod
      metadata: {name: running-0, uid: p, annotations: {scheduling.k8s.io/group-name: running}}
      spec: {schedulerName: volcanopy, nodeName: n1, containers: [{name: main, resources: {requests: {cpu: 1}}}]}
      status: {phase: Running}
    """
    plan_with(files(tmp_path, world=WORLD, ended=ended, running=running), PlanOptions())
    output = capsys.readouterr()
    assert "job lab/small starts now on n1" in output.out
    assert not re.search("ended|running", output.out + output.err)

"""``volcanopy convert``: Volcano's manifests as ours, with notes on lost fields."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from volcanopy.api.bindings import VOLCANO
from volcanopy.cli.conversion import convert, converted
from volcanopy.client.errors import CommandError

TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}


def volcano(group: str, kind: str, spec: Any, version: str = "v1alpha1", **others: Any) -> dict[str, Any]:
    """One of Volcano's objects."""
    return {
        "apiVersion": f"{group}.volcano.sh/{version}",
        "kind": kind,
        "metadata": {"name": "x"},
        "spec": spec,
        **others,
    }


def job(**spec: Any) -> dict[str, Any]:
    """One of Volcano's jobs."""
    return volcano("batch", "Job", {"tasks": [{"name": "a", "replicas": 1, "template": TEMPLATE}], **spec})


@pytest.mark.parametrize(
    ("group", "kind", "version", "ours"),
    [
        ("batch", "Job", "v1alpha1", ("batch.volcanopy.io/v1alpha1", "BatchJob")),
        ("batch", "CronJob", "v1alpha1", ("batch.volcanopy.io/v1alpha1", "CronBatchJob")),
        ("bus", "Command", "v1alpha1", ("bus.volcanopy.io/v1alpha1", "Command")),
        ("flow", "JobFlow", "v1alpha1", ("flow.volcanopy.io/v1alpha1", "JobFlow")),
        ("flow", "JobTemplate", "v1alpha1", ("flow.volcanopy.io/v1alpha1", "JobTemplate")),
        ("nodeinfo", "Numatopology", "v1alpha1", ("nodeinfo.volcanopy.io/v1alpha1", "NumaTopology")),
        ("scheduling", "PodGroup", "v1beta1", ("scheduling.volcanopy.io/v1beta1", "PodGroup")),
        ("scheduling", "Queue", "v1beta1", ("scheduling.volcanopy.io/v1beta1", "Queue")),
        ("topology", "HyperNode", "v1alpha1", ("topology.volcanopy.io/v1alpha1", "HyperNode")),
    ],
)
def test_every_kind_has_its_counterpart(group: str, kind: str, version: str, ours: tuple[str, str]) -> None:
    body = converted(volcano(group, kind, {}, version)).body
    assert (body["apiVersion"], body["kind"]) == ours


def test_an_unsupported_kind_is_omitted_with_a_note() -> None:
    conversion = converted(volcano("config", "ColocationConfiguration", {}))
    assert conversion.body == {}
    assert conversion.notes == ["config.volcano.sh/v1alpha1: kind ColocationConfiguration is not supported: omitted"]


def test_names_of_volcano_are_replaced() -> None:
    pod = {
        "metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "q", "volcano.sh/preemptable": "true"}},
        "spec": {
            "schedulerName": "volcano",
            "nodeSelector": {"volcano.sh/nodegroup-name": "a"},
            "containers": [
                {"name": "m", "image": "volcano.sh/x", "resources": {"limits": {"volcano.sh/gpu-memory": 1}}}
            ],
        },
    }
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": pod}}
    template = converted(deployment).body["spec"]["template"]
    assert template["metadata"]["annotations"] == {
        "scheduling.volcanopy.io/queue-name": "q",
        "volcanopy.io/preemptable": "true",
    }
    assert template["spec"]["schedulerName"] == "volcanopy"
    assert template["spec"]["nodeSelector"] == {"volcanopy.io/nodegroup-name": "a"}
    assert template["spec"]["containers"][0]["resources"] == {"limits": {"volcano.sh/gpu-memory": 1}}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.labels['volcano.sh/job-name']", "metadata.labels['volcanopy.io/job-name']"),
        ("metadata.annotations['volcano.sh/task-index']", "metadata.annotations['volcanopy.io/task-index']"),
        ("metadata.labels['volcano.sh/unknown']", "metadata.labels['volcano.sh/unknown']"),
        ("metadata.name", "metadata.name"),
    ],
)
def test_a_variable_from_a_label_or_annotation_reads_the_new_name(path: str, expected: str) -> None:
    container = {"name": "main", "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": path}}}]}
    body = converted(job(tasks=[{"name": "a", "template": {"spec": {"containers": [container]}}}])).body
    (variable,) = body["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["env"]
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == expected


def test_keys_with_dots_are_removed_by_their_path() -> None:
    """A quota for devices of a class has a key with dots and a slash."""
    spec = {"weight": 1, "deserved": {"gpu.example.com/deviceclass/a.b": {"nested": 1}}, "un.known": 1}
    conversion = converted(volcano("scheduling", "Queue", spec, "v1beta1"))
    assert "un.known" not in conversion.body["spec"]
    assert any(note.startswith("spec.un.known: not supported") for note in conversion.notes)


def test_a_schema_with_the_property_scheduler_name_is_kept() -> None:
    schema = {"properties": {"schedulerName": {"type": "string"}}}
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": schema}
    assert converted(definition).body["spec"] == schema


@pytest.mark.parametrize(
    ("body", "note"),
    [
        (
            {"kind": "ClusterRole", "rules": [{"apiGroups": ["batch.volcano.sh"]}]},
            "rules[0].apiGroups[0]: contains 'batch.volcano.sh'",
        ),
        (
            {"kind": "Workflow", "spec": {"manifest": "kind: Pod\nspec:\n  schedulerName: volcano\n"}},
            "spec.manifest: contains 'schedulerName: volcano'",
        ),
        (
            {"kind": "Pod", "spec": {"limits": {"volcano.sh/gpu-memory": 1}}},
            "spec.limits.volcano.sh/gpu-memory: volcano.sh/gpu-memory left as it is",
        ),
    ],
)
def test_what_is_left_is_noted(body: dict[str, Any], note: str) -> None:
    (written,) = converted({"apiVersion": "v1", **body}).notes
    assert written.startswith(note)


def test_a_manifest_inside_of_a_string_is_not_changed_in_part() -> None:
    manifest = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n"
    conversion = converted({"apiVersion": "v1", "kind": "Workflow", "spec": {"manifest": manifest}})
    assert conversion.body["spec"]["manifest"] == manifest
    assert conversion.notes == [
        "spec.manifest: contains 'apiVersion: batch.volcano.sh/v1alpha1': left as it is, "
        "change it if it is meant for volcanopy"
    ]


def test_what_is_changed_is_listed_with_its_path() -> None:
    pod = {"schedulerName": "volcano", "nodeSelector": {"volcano.sh/nodegroup-name": "a"}}
    conversion = converted({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": pod}}})
    assert conversion.changes == [
        "spec.template.spec.nodeSelector.volcano.sh/nodegroup-name: "
        "volcano.sh/nodegroup-name changed to volcanopy.io/nodegroup-name",
        "spec.template.spec.schedulerName: volcano changed to volcanopy",
    ]


def test_a_job_keeps_the_defaults_of_volcano() -> None:
    given = job(maxRetry=0, tasks=[{"template": TEMPLATE, "maxRetry": 0}])
    spec = converted(given).body["spec"]
    assert "maxRetry" not in spec
    assert spec["tasks"] == [{"template": TEMPLATE, "name": "default0", "replicas": 0}]


def test_lost_fields_are_noted_with_their_path() -> None:
    conversion = converted(job(plugins={"mxnet": [], "svc": ["--no=1"]}, extra=1))
    assert conversion.body["spec"]["plugins"] == {"svc": ["--no=1"]}
    assert "extra" not in conversion.body["spec"]
    assert conversion.notes[0] == "spec.plugins.mxnet: unknown plugin: omitted"
    assert conversion.notes[1].startswith("spec.plugins.svc: '--no' is no argument for plugin svc.")
    assert conversion.notes[2] == "spec.extra: not supported: omitted"


def test_the_time_zone_of_a_schedule_gets_its_own_field() -> None:
    spec = {"schedule": "CRON_TZ=Asia/Tokyo 0 9 * * *", "jobTemplate": {"spec": job()["spec"]}}
    conversion = converted(volcano("batch", "CronJob", spec))
    assert conversion.body["spec"]["schedule"] == "0 9 * * *"
    assert conversion.body["spec"]["timeZone"] == "Asia/Tokyo"
    assert conversion.notes == []


def test_a_probe_ignored_by_volcano_is_noted() -> None:
    probe = {"tcpSocketList": [{"taskName": "t", "port": 80}]}
    spec = {"flows": [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"], "probe": probe}}]}
    (note,) = converted(volcano("flow", "JobFlow", spec)).notes
    assert note.startswith("spec.flows[1].dependsOn.probe: ignored by Volcano, but effective here")


def test_the_target_of_a_command_is_converted() -> None:
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u"}
    given = {**volcano("bus", "Command", {}), "action": "AbortJob", "target": target}
    del given["spec"]
    conversion = converted(given)
    assert conversion.body["target"] | {"uid": ""} == {
        "apiVersion": "batch.volcanopy.io/v1alpha1",
        "kind": "BatchJob",
        "name": "j",
        "uid": "",
    }
    assert conversion.notes == ["target.uid: belongs to the object in the old cluster: set the uid of the new object"]


def test_fields_written_by_an_api_server_are_removed() -> None:
    given = volcano("scheduling", "Queue", {"weight": 0}, "v1beta1", status={"state": "Open"})
    given["metadata"] |= {"uid": "u", "resourceVersion": "7", "managedFields": []}
    assert converted(given).body == {
        "apiVersion": "scheduling.volcanopy.io/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "x"},
        "spec": {},
    }


nonsense = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["tasks", "name", "flows", "x"]), inner)
    ),
    max_leaves=10,
)


@given(
    nonsense, st.sampled_from([("batch", "Job"), ("batch", "CronJob"), ("flow", "JobFlow"), ("scheduling", "Queue")])
)
def test_invalid_specs_are_noted(spec: Any, kind: tuple[str, str]) -> None:
    conversion = converted(volcano(*kind, spec))
    assert all(": " in note for note in conversion.notes)


def test_the_command_writes_manifests_and_notes(tmp_path: Path) -> None:
    source = tmp_path / "job.yaml"
    source.write_text(yaml.safe_dump_all([job(extra=1), volcano("config", "ColocationConfiguration", {})]))
    command = [sys.executable, "-m", "volcanopy", "convert", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (made,) = yaml.safe_load_all(done.stdout)
    assert made["kind"] == "BatchJob"
    version, kind, first, second = done.stderr.splitlines()
    of_job = f"{source}, document 1 (Job x)"
    assert version == f"{of_job}: apiVersion: batch.volcano.sh/v1alpha1 changed to batch.volcanopy.io/v1alpha1"
    assert kind == f"{of_job}: kind: Job changed to BatchJob"
    assert first == f"{source}, document 1 (Job x): spec.extra: not supported: omitted"
    assert second.endswith("is not supported: omitted")
    strict = subprocess.run([*command, "--strict"], capture_output=True, text=True, check=False)
    assert strict.returncode == 1
    assert strict.stderr.splitlines()[-1] == "volcanopy: 2 notes on the conversion"


def test_a_file_without_manifests_is_an_error(tmp_path: Path) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("---\n")
    with pytest.raises(CommandError, match=f"no manifest in {empty}"):
        convert([str(empty)], None, strict=False)


OPERATORS: dict[str, dict[str, Any]] = {
    "ray.io/v1 RayCluster": {"metadata": {"labels": {"volcano.sh/queue-name": "q"}}},
    "sparkoperator.k8s.io/v1beta2 SparkApplication": {
        "spec": {"batchScheduler": "volcano", "driver": {"annotations": {"scheduling.volcano.sh/queue-name": "q"}}}
    },
    "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet": {
        "metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "q"}}
    },
    "trainer.kubeflow.org/v1alpha1 TrainingRuntime": {
        "spec": {"template": {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "q"}}, "spec": {}}}
    },
}


@pytest.mark.parametrize("kind", OPERATORS)
def test_names_that_an_operator_reads_are_kept_with_a_note(kind: str) -> None:
    api_version, name = kind.split()
    body = {"apiVersion": api_version, "kind": name, **OPERATORS[kind]}
    conversion = converted(body)
    assert conversion.body == body
    assert [f"the operator of {name} may read it" in note for note in conversion.notes] == [True]


def test_pod_templates_of_operators_are_converted() -> None:
    annotations, spec = {"volcano.sh/preemptable": "true"}, {**TEMPLATE["spec"], "schedulerName": "volcano"}
    template = {"metadata": {"annotations": annotations}, "spec": spec}
    body = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"Worker": {"template": template}}}
    result = converted(body).body["spec"]["Worker"]["template"]
    assert result["metadata"]["annotations"] == {"volcanopy.io/preemptable": "true"}
    assert result["spec"]["schedulerName"] == "volcanopy"


@given(
    st.from_regex(r"([a-z]{1,9}\.)?volcano\.sh/[a-z][a-z-]{0,12}", fullmatch=True)
    | st.sampled_from(sorted(VOLCANO.keys))
)
def test_a_name_is_changed_just_if_volcanopy_implements_it(key: str) -> None:
    written = VOLCANO.key(key)
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {written: "x"}}, "spec": {**TEMPLATE["spec"]}}
    conversion = converted(body)
    implemented = key in VOLCANO.keys or written in VOLCANO.aliases
    assert list(conversion.body["metadata"]["labels"]) == [VOLCANO.aliases[written] if implemented else written]
    assert bool(conversion.notes) is not implemented

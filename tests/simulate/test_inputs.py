"""Readers of workloads and clusters: what they make of a line, and what they say about wrong ones."""

import math

import pytest

from volcanopy.api import core, names
from volcanopy_lab.simulate.cluster_description import read_description
from volcanopy_lab.simulate.inputs import detected, read_openb_nodes, read_workload
from volcanopy_lab.simulate.workload import Job, WorkloadError, load_of, scaled, windowed

SWF = """\
; UnixStartTime: 0
1 100 5 60 4 -1 -1 8 600 -1 1 3 1 7 2 1 -1 -1
2 160 5 -1 4 -1 -1 4 600 -1 0 3 1 7 2 1 -1 -1
"""
OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
a,12000,16384,1,460,,LS,Running,0,1000,10
b,6000,1024,2,1000,P100|V100M16,BE,Running,50,,
"""
HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,colour
7,ana,vcA,16,64,2,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:01:00,2020-04-01 00:02:00,60,red
8,ben,vcA,1,,1,COMPLETED,2020-04-01 00:00:20,,,0,red
"""
BORG = """\
time,collection_id,priority,resource_request.cpus,resource_request.memory,instances,duration
5000000,11,200,0.5,0.25,3,60000000
"""
JOBS = '{"name": "train-7", "queue": "q", "user": "ana", "queued": "2030-01-01T00:00:00Z", "runningDuration": "100s", "pods": 2, "resourceSeconds": {"cpu": "800", "nvidia.com/gpu": "200"}}'


def test_a_job_of_an_swf_trace() -> None:
    trace = read_workload(SWF, pod_cpus=4)
    (job,) = trace.jobs
    assert job == Job(
        "user-3-program-7-1", 0, 60, 2, {"cpu": "4"}, queue="queue-2", user="user-3", estimate=600, walltime=600
    )
    assert trace.all_notes() == ["1 job left out: no run time"]


def test_pods_of_an_openb_trace_share_cards_or_have_whole_ones_of_some_models() -> None:
    first, second = read_workload(OPENB).jobs
    assert first.requests == {"cpu": "12000m", "memory": "16384Mi", names.GPU_MEMORY: "460"}
    assert (first.submit, first.run_time) == (0, 990)
    assert second.requests[names.GPU_NUMBER] == "2"
    assert second.run_time == math.inf
    assert second.affinity is not None
    (node,) = read_openb_nodes(["sn,cpu_milli,memory_mib,gpu,model", "n1,96000,1024,8,P100"])
    assert node.status.allocatable[names.GPU_MEMORY] == "8000"
    assert node.metadata.labels["gpu-model"] == "P100"


def test_a_job_of_a_helios_trace_and_its_unknown_column() -> None:
    trace = read_workload(HELIOS)
    (job,) = trace.jobs
    assert job == Job("job-7", 0, 60, 2, {"cpu": "32000m", "nvidia.com/gpu": "8"}, queue="vca", user="ana")
    assert trace.all_notes() == ["unknown columns are not used: colour", "1 job left out: no run time"]


def test_requests_of_a_borg_trace_are_parts_of_the_largest_machine() -> None:
    (job,) = read_workload(BORG, machine=(64.0, 2.0**38)).jobs
    assert job == Job("job-11", 0, 60, 3, {"cpu": "32000m", "memory": str(2**36)}, priority=200)


@pytest.mark.parametrize("text", [JOBS, '{"kind": "JobHistory", "items": [' + JOBS + "]}"])
def test_a_finished_job_requests_what_it_used(text: str) -> None:
    (job,) = read_workload(text).jobs
    assert job == Job("train-7", 0, 100, 2, {"cpu": "4", "nvidia.com/gpu": "1"}, queue="q", user="ana")


@pytest.mark.parametrize(
    ("text", "kind"), [(SWF, "swf"), (OPENB, "openb"), (HELIOS, "philly"), (BORG, "borg"), (JOBS, "jobs")]
)
def test_formats_are_detected(text: str, kind: str) -> None:
    assert detected(text) == kind


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        ("a,b\n1,2\n", "", "the format is none of swf, openb, philly, borg, jobs: the columns are a, b"),
        ("name,cpu_milli,num_gpu\n", "openb", "no column creation_time, which traces of openb have"),
        ("", "", "the file is empty"),
        (
            "a," * 5000,
            "borg",
            "no column collection_id or job_id, which traces of Borg have; columns are a, a, .{194}$",
        ),
        ("", "philly", "no column job_id or jobid, which traces of Philly or Helios have; columns are none"),
        ("1 2 3\n", "swf", "line 1: a job of an SWF trace has 18 fields, not 3"),
        (SWF.replace("600", "soon"), "", "line 2: fields of an SWF trace are numbers, not 'soon'"),
        (OPENB.replace("12000", ""), "", "line 2: cpu is missing"),
        (HELIOS.replace("2020-04-01 00:00:10", ""), "", "line 2: submit is missing"),
        (BORG.replace("0.5", "nan"), "", "line 2: cpus is missing"),
        (OPENB.replace("12000", "many"), "", "line 2: cpu must be a number, not 'many'"),
        (HELIOS.replace("2020-04-01 00:00:10", "monday"), "", "line 2: submit must be seconds or a date"),
        ('{"name": "a"}', "", "line 1: no field 'queued'"),
        ('{"name": ', "", "line 1: not JSON"),
        (SWF, "xls", "the format must be one of swf, openb, philly, borg, jobs, not 'xls'"),
        ("; nothing\n", "", "the workload has no jobs"),
    ],
)
def test_a_wrong_file_is_one_sentence(text: str, kind: str, sentence: str) -> None:
    with pytest.raises(WorkloadError, match="^" + sentence.replace("(", r"\(")) as error:
        read_workload(text, kind)
    assert "\n" not in str(error.value)


def test_a_description_of_a_cluster() -> None:
    objects = read_description(
        {
            "nodes": [
                {"count": 2, "name": "gpu", "allocatable": {"cpu": 8, "nvidia.com/gpu": 4}, "labels": {"zone": "a"}}
            ],
            "queues": {"a": {"weight": 3}},
        }
    )
    nodes = [item for item in objects if isinstance(item, core.Node)]
    assert [node.metadata.name for node in nodes] == ["gpu-0", "gpu-1"]
    assert nodes[0].status.allocatable == {"pods": "110", "cpu": "8", "nvidia.com/gpu": "4"}
    assert {item.metadata.name: item.spec.weight for item in objects if isinstance(item, core.Queue)} == {
        "a": 3,
        "default": 1,
    }


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ([], "the description of the cluster must be a mapping"),
        ({"node": []}, "node: unknown field of the description"),
        ({"nodes": []}, "nodes: give a list of nodes"),
        ({"nodes": [{"count": 0}]}, r"nodes\[0\].count must be a whole number from 1, not 0"),
        ({"nodes": [{"cpu": 1}]}, r"nodes\[0\].cpu: unknown field"),
        ({"nodes": [{"allocatable": {"cpu": "much"}}]}, r"nodes\[0\].allocatable: "),
        ({"nodes": [{"allocatable": {"cpu": -1}}]}, r"nodes\[0\].allocatable.cpu must not be negative: -1"),
        (
            {"nodes": 2 * [{"allocatable": {"cpu": 1}, "name": "a"}]},
            r"nodes\[1\].name: nodes\[0\] has a node 'a-0', too",
        ),
    ],
)
def test_a_wrong_description_is_one_sentence(content: object, sentence: str) -> None:
    with pytest.raises(WorkloadError, match="^" + sentence):
        read_description(content)


@pytest.mark.parametrize(
    ("queues", "sentence"),
    [
        ({"a": {"weight": "x"}}, "queues.a: spec.weight must be a whole number"),
        ({"a": {"weight": -3}}, "queues.a: spec.weight: Invalid value: -3"),
        ({"a": {"weigth": 3}}, "queues.a: spec.weigth: Unknown field"),
        ({"a": {"parent": "b"}}, 'queues.a: spec.parent: Not found: queue "b"'),
        ({"a": {"capability": {"cpu": "x"}}}, "queues.a: spec.capability.cpu: 'x' is not a quantity"),
        ([{"kind": "Pod", "metadata": {"name": "a"}}], r"queues\[0\].kind must be Queue, not 'Pod'"),
        (2 * [{"metadata": {"name": "a"}}], r"queues\[1\]: queues\[0\] has the same name 'a'"),
    ],
)
def test_queues_of_a_description_are_reviewed_by_admission(queues: object, sentence: str) -> None:
    with pytest.raises(WorkloadError, match="^" + sentence):
        read_description({"nodes": [{"allocatable": {"cpu": 1}}], "queues": queues})


def test_queues_of_a_description_may_come_before_those_above_them() -> None:
    objects = read_description({"nodes": [{"allocatable": {"cpu": 1}}], "queues": {"a": {"parent": "b"}, "b": None}})
    assert [item.metadata.name for item in objects if isinstance(item, core.Queue)] == ["a", "b", "default"]


def test_window_and_load() -> None:
    jobs = [Job(str(number), 10.0 * number, 5) for number in range(11)]
    assert [job.submit for job in windowed(jobs, 20, 50)] == [0, 10, 20]
    assert load_of(jobs, {"cpu": 1000}) == pytest.approx(0.55)
    assert load_of(scaled(jobs, 2), {"cpu": 1000}) == pytest.approx(1.1)

"""Jobs with alternatives: their pods exist in the selected one only."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.jobcontroller.world import World, job, task
from volcanopy.api import names
from volcanopy.api.batch import BatchJob
from volcanopy.api.core import PodGroup
from volcanopy.api.job_alternatives import with_alternative
from volcanopy.jobcontroller.job_podgroup import pod_group_spec
from volcanopy.jobcontroller.learnt_run_times import LearntRunTimes, job_key

Json = dict[str, Any]


def changed(**resources: str) -> Json:
    """The template of an alternative with these requests."""
    return {"spec": {"containers": [{"name": "main", "resources": {"requests": resources}}]}}


def alternatives() -> list[Json]:
    """A GPU for each worker, or 8 cpus on some nodes."""
    gpu, cpu = changed(**{"nvidia.com/gpu": "1"}), changed(cpu="8")
    cpu["spec"]["nodeSelector"] = {"pool": "cpu"}
    return [
        {"name": "gpu", "runningEstimate": "10m", "tasks": [{"name": "worker", "template": gpu}]},
        {"name": "cpu", "runningEstimate": "1h", "tasks": [{"name": "worker", "template": cpu}]},
    ]


def world(**spec: Any) -> World:
    """A job of a master and two workers that has got its PodGroup."""
    return World(job(task("master"), task("worker", 2), alternatives=alternatives(), **spec)).settle()


def admitted(with_: str, **spec: Any) -> World:
    """The same, admitted with an alternative."""
    state = world(**spec)
    assert state.pod_group is not None
    state.pod_group["status"]["alternative"] = {"name": with_, "message": "gpu starts first"}
    return state.admit().settle()


def requests(state: World) -> dict[str, Json]:
    """The requests of each pod."""
    return {name: pod["spec"]["containers"][0]["resources"]["requests"] for name, pod in state.pods.items()}


def test_the_pod_group_has_the_alternatives_and_no_pods_exist() -> None:
    state = world()
    assert state.pod_group is not None
    assert not state.pods
    spec = state.pod_group["spec"]
    gpu, cpu = spec["alternatives"]
    assert spec["minResources"] == gpu["minResources"]
    assert (gpu["name"], gpu["runningEstimate"], gpu["minResources"]["nvidia.com/gpu"]) == ("gpu", "10m0s", "2")
    assert (cpu["minResources"]["cpu"], cpu["minResources"]["requests.cpu"]) == ("17", "17")
    assert cpu["tasks"] == [
        {"name": "master", "pods": 1, "requests": {"cpu": "1"}},
        {"name": "worker", "pods": 2, "requests": {"cpu": "8"}, "nodeSelector": {"pool": "cpu"}},
    ]


@pytest.mark.parametrize(("selected", "worker"), [("gpu", {"cpu": "1", "nvidia.com/gpu": "1"}), ("cpu", {"cpu": "8"})])
def test_pods_are_created_with_the_selected_alternative(selected: str, worker: Json) -> None:
    state = admitted(selected)
    assert requests(state) == {"job-master-0": {"cpu": "1"}, "job-worker-0": worker, "job-worker-1": worker}
    assert state.status["alternative"] == {"name": selected, "message": "gpu starts first"}
    assert "AlternativeSelected" in [event.reason for event in state.events]


def test_the_pod_group_gets_the_selected_alternative_and_no_choice_is_left() -> None:
    state = admitted("cpu")
    assert state.pod_group is not None
    assert "alternatives" not in state.pod_group["spec"]
    assert state.pod_group["spec"]["minResources"]["cpu"] == "17"
    assert "nvidia.com/gpu" not in state.pod_group["spec"]["minResources"]
    assert state.pod_group["metadata"]["annotations"][names.RUNNING_ESTIMATE] == "1h0m0s"


def test_a_scheduler_that_knows_no_alternatives_gets_the_first() -> None:
    state = world().admit().settle()
    assert requests(state)["job-worker-0"] == {"cpu": "1", "nvidia.com/gpu": "1"}
    assert state.status["alternative"]["name"] == "gpu"


def test_a_lost_pod_group_does_not_change_the_alternative() -> None:
    state = admitted("cpu").run()
    state.pod_group = None
    state.delete("job-worker-1")
    group = state.settle().pod_group
    assert group is not None
    assert "alternatives" not in group["spec"]
    state.admit().settle()
    assert requests(state)["job-worker-1"] == {"cpu": "8"}


def test_a_restart_of_the_job_makes_another_choice_possible() -> None:
    state = admitted("cpu").run()
    state.command("RestartJob").settle()
    assert state.pod_group is not None
    assert not state.pods
    assert "alternative" not in state.status
    assert [each["name"] for each in state.pod_group["spec"]["alternatives"]] == ["gpu", "cpu"]
    state.pod_group["status"]["alternative"] = {"name": "gpu"}
    state.admit().settle()
    assert requests(state)["job-worker-0"] == {"cpu": "1", "nvidia.com/gpu": "1"}


def test_a_restart_of_a_task_keeps_the_alternative() -> None:
    state = admitted("cpu", policies=[{"event": "PodFailed", "action": "RestartPod"}]).run()
    state.fail("job-worker-0").settle()
    assert requests(state)["job-worker-0"] == {"cpu": "8"}
    assert state.status["alternative"]["name"] == "cpu"


@pytest.mark.parametrize("crash_after", range(1, 4))
def test_a_crash_after_the_admission_changes_nothing(crash_after: int) -> None:
    state = world()
    assert state.pod_group is not None
    state.pod_group["status"]["alternative"] = {"name": "cpu"}
    state.admit().step(crash_after)
    assert requests(state.settle())["job-worker-0"] == {"cpu": "8"}


def test_a_task_without_changes_has_its_template_in_each_alternative() -> None:
    spec = BatchJob.read(job(task("master"), task("worker", 2), alternatives=alternatives()))
    for name in ("gpu", "cpu"):
        assert with_alternative(spec, name).spec.tasks[0] == spec.spec.tasks[0]
    assert with_alternative(spec, "other").spec == spec.spec


def test_run_times_are_learnt_for_each_alternative() -> None:
    def run(name: str, alternative: str) -> BatchJob:
        manifest = job(task("worker"), name=name, alternatives=alternatives())
        return BatchJob.read(manifest | {"status": {"alternative": {"name": alternative}}})

    table = LearntRunTimes()
    for number in range(3):
        table.learn(job_key(run(f"train-{number}", "gpu")), timedelta(minutes=5))
        table.learn(job_key(run(f"train-{number}", "cpu")), timedelta(minutes=50))
    assert table.estimate(job_key(run("train-9", "gpu"))) == timedelta(minutes=5)
    assert table.estimate(job_key(run("train-9", "cpu"))) == timedelta(minutes=50)
    assert table.estimate(job_key(BatchJob.read(job(task("worker"), name="train-9")))) is None
    assert LearntRunTimes.load(table.dump()).dump() == table.dump()


def test_a_learnt_run_time_changes_the_pod_group_only_if_it_differs_by_a_fifth() -> None:
    without = [{key: value for key, value in each.items() if key != "runningEstimate"} for each in alternatives()]
    read = BatchJob.read(job(task("master"), task("worker", 2), alternatives=without))

    def spec(minutes: int, existing: PodGroup | None = None) -> Json:
        return pod_group_spec(read, read.spec.tasks, {}, {"gpu": timedelta(minutes=minutes)}, existing)

    first = spec(100)
    assert [each.get("runningEstimate") for each in first["alternatives"]] == ["1h40m0s", None]
    existing = msgspec.convert({"metadata": {}, "spec": first}, PodGroup)
    assert spec(110, existing) == first
    assert spec(150, existing)["alternatives"][0]["runningEstimate"] == "2h30m0s"

"""The Python SDK on a running cluster, and that importing the package stays cheap."""

import asyncio
import inspect
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client as official

import volcanopy
from volcanopy import AdmissionWarning, AsyncJob, Job, JobError, Task


def test_a_job_is_submitted_awaited_explained_and_read(kubeconfig: Path) -> None:
    job = Job(["true"], image="busybox", cpu="100m", kubeconfig=kubeconfig).submit()
    assert job.name.startswith("job-")
    assert job.wait(timeout=60) == "Completed"
    assert job.phase() == "Completed"
    assert f'job "{job.name}" completed' in job.explain()
    assert list(job.logs()) == [f"{job.name}-main-0"]
    with pytest.raises(JobError, match="has ended: Completed"):
        job.cancel()
    for submitted in (job, Job.attach(job.name, kubeconfig=kubeconfig)):
        with pytest.raises(JobError, match=f'job "{job.name}" is submitted already: make a new one to run it again'):
            submitted.submit()


async def test_a_waiting_job_is_explained_and_cancelled(kubeconfig: Path) -> None:
    job = AsyncJob(["true"], name="too-large", image="busybox", cpu="64", kubeconfig=kubeconfig)
    with pytest.raises(JobError, match="the job is not submitted"):
        await AsyncJob(["true"], kubeconfig=kubeconfig).phase()
    await job.submit()
    same_name = AsyncJob(["true"], name="too-large", image="busybox", kubeconfig=kubeconfig)
    with pytest.raises(JobError, match=r"not submitted: call submit\(\), or Job.attach\(NAME\) for a job that exists"):
        await same_name.cancel()
    assert 'job "too-large" is pending' in await job.explain()
    await job.cancel("not needed")
    assert await job.phase() == "Terminated"
    with pytest.raises(JobError, match='job "too-large" cannot become Completed'):
        await job.wait(timeout=120)


def test_the_error_of_a_job_that_failed_has_the_end_of_its_log(processes: Path) -> None:
    job = Job(["sh", "-c", "seq 30; exit 3"], name="fails-with-log", cpu=0.1, here=True, kubeconfig=processes).submit()
    with pytest.raises(JobError) as caught:
        job.wait(timeout=120)
    reason, _, log = str(caught.value).partition("; the last lines of pod fails-with-log-main-0:\n")
    assert reason.startswith('job "fails-with-log" cannot become Completed: it is Failed: ')
    assert log.split() == [str(number) for number in range(11, 31)]
    assert job.last_phase == "Failed"


def test_pods_are_defined_by_models_of_the_official_client_and_returned_as_such(kubeconfig: Path) -> None:
    requests = official.V1ResourceRequirements(requests={"cpu": "100m"})
    container = official.V1Container(name="work", image="busybox", command=["true"], resources=requests)
    job = Job(template=container, replicas=2, name="of-models", kubeconfig=kubeconfig).submit()
    assert job.wait(timeout=60) == "Completed"
    pods = job.pods()
    assert all(isinstance(pod, official.V1Pod) for pod in pods)
    serialized: Any = official.ApiClient().sanitize_for_serialization
    shown = [serialized(pod) for pod in pods]
    assert [pod["metadata"]["name"] for pod in shown] == ["of-models-main-0", "of-models-main-1"]
    assert shown[0]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "100m"}


@pytest.mark.parametrize(
    "template",
    [
        official.V1Container(name="c", image="i"),
        official.V1PodSpec(restart_policy="Never", containers=[official.V1Container(name="c", image="i")]),
        official.V1PodTemplateSpec(
            spec=official.V1PodSpec(restart_policy="Never", containers=[official.V1Container(name="c", image="i")])
        ),
        {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
    ],
)
def test_a_template_is_a_container_a_pod_or_a_pod_template(template: object) -> None:
    task = Job(template=template).manifest["spec"]["tasks"][0]
    assert task["template"] == {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}


def test_a_template_of_another_type_or_beside_a_command_is_rejected() -> None:
    with pytest.raises(JobError, match="template: str is none of V1PodTemplateSpec, V1PodSpec, V1Container or dict"):
        Job(template="busybox")
    with pytest.raises(JobError, match="template: leave out command"):
        Job(["true"], template={"spec": {}})


def test_the_official_client_uses_the_connection(kubeconfig: Path) -> None:
    job = Job(["true"], name="seen", image="busybox", cpu="100m", kubeconfig=kubeconfig).submit()
    api = official.CustomObjectsApi(volcanopy.api_client(kubeconfig))
    group, version = job.manifest["apiVersion"].split("/")
    jobs: Any = api.list_cluster_custom_object(group, version, "batchjobs")
    assert "seen" in [body["metadata"]["name"] for body in jobs["items"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"command": ["sleep", 1]}, "command: 1 is of type int: use strings"),
        ({"command": None}, "command: None is of type NoneType: use a list of strings"),
        ({"cpu": math.nan}, "cpu: nan is not finite"),
        ({"memory": math.inf}, "memory: inf is not finite"),
        ({"memory": None}, "memory: None is of type NoneType: use a number, or a quantity such as 500m or 2Gi"),
        ({"env": ["A=1"]}, "env: ['A=1'] is of type list: use a dict"),
        ({"env": {"A": 1, "B": None}}, "env['B']: None is of type NoneType: use a string"),
        ({"array": 3}, "array: 3 is of type int: use a string"),
        ({"deadline": 60}, "deadline: 60 is of type int: use a string"),
        ({"image": None}, "image: None is of type NoneType: use a string"),
        ({"memory": True}, "memory: True is of type bool: use a number, or a quantity such as 500m or 2Gi"),
        ({"here": "yes"}, "here: 'yes' is of type str: use True or False"),
        ({"plugins": "svc"}, "plugins: 'svc' is of type str: use a list of strings"),
        ({"command": (), "tasks": [1]}, "tasks: [1] is of type list: use a dict of names and tasks"),
        ({"command": (), "tasks": {"a": ["true"]}}, "tasks['a']: ['true'] is of type list: use volcanopy.Task"),
    ],
)
def test_an_argument_of_another_type_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError, match=f"^{re.escape(message)}$"):
        Job(**{"command": ["true"], **arguments})


def test_a_word_of_a_command_may_be_a_path() -> None:
    container = Job([Path("/bin/true"), "x"]).manifest["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    assert container["command"] == ["/bin/true", "x"]


def test_a_name_and_a_time_of_another_type_are_named() -> None:
    job = Job(["true"], name="typed")
    with pytest.raises(JobError, match=r"^name: <Job .* is of type Job: use the name of a job$"):
        Job.attach(job)  # type: ignore[arg-type]
    with pytest.raises(JobError, match=r"^timeout: '10s' is of type str: use seconds$"):
        job.wait(timeout="10s")  # type: ignore[arg-type]
    with pytest.raises(JobError, match=r"^tail: 'all' is of type str: use a number of lines$"):
        job.logs(tail="all")  # type: ignore[arg-type]


def test_an_argument_that_does_not_exist_is_an_error_of_job() -> None:
    with pytest.raises(TypeError, match=r"^Job\.__init__\(\) got an unexpected keyword argument 'cpus'$"):
        Job(["true"], cpus=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^Job\.wait\(\) got an unexpected keyword argument 'seconds'$"):
        Job(["true"]).wait(seconds=2)  # type: ignore[call-arg]
    assert inspect.signature(Job) == inspect.signature(AsyncJob)


def test_invalid_values_are_named() -> None:
    with pytest.raises(JobError, match=r"^specify image, or a command to run on a process node$"):
        Job([], here=True)
    with pytest.raises(JobError, match=r"^array: 'x' is invalid"):
        Job(["true"], array="x")
    with pytest.raises(JobError, match=r"^name: 'My Job' is invalid: use lower case letters"):
        Job(["true"], name="My Job")
    with pytest.raises(JobError, match=r"^minimum: 3 exceeds replicas 2$"):
        Job(["true"], replicas=2, minimum=3)
    assert Job(["true"], deadline="2h").manifest["spec"]["activeDeadlineSeconds"] == 7200


def test_a_rejection_is_a_sentence_of_its_own_after_few_frames(kubeconfig: Path) -> None:
    sentence = r'^rejected by the cluster: spec.queue: Not found: queue "nope": create it or choose another queue$'
    with pytest.raises(JobError, match=sentence) as caught:
        Job(["true"], queue="nope", kubeconfig=kubeconfig).submit()
    assert len(caught.traceback) <= 3


async def test_a_job_is_submitted_once(kubeconfig: Path) -> None:
    job = AsyncJob(["true"], image="busybox", cpu=0.1, kubeconfig=kubeconfig)
    first, second = await asyncio.gather(job.submit(), job.submit(), return_exceptions=True)
    assert first is None
    assert isinstance(second, JobError)


def test_a_job_that_was_rejected_can_be_submitted_again(kubeconfig: Path) -> None:
    job = Job(["true"], name="again", queue="nope", image="busybox", cpu=0.1, kubeconfig=kubeconfig)
    with pytest.raises(JobError):
        job.submit()
    job.manifest["spec"]["queue"] = "default"
    assert job.submit().name == "again"


def test_a_job_is_found_by_name_and_listed_by_queue_and_phase(kubeconfig: Path) -> None:
    Job(["true"], name="first-of-list", image="busybox", cpu=0.1, kubeconfig=kubeconfig).submit().wait(timeout=60)
    found = Job.attach("first-of-list", kubeconfig=kubeconfig)
    assert repr(found) == '<Job "first-of-list": Completed, 1 of 1 pods>'
    listed = [job.name for job in Job.list(queue="default", phase="completed", kubeconfig=kubeconfig)]
    assert "first-of-list" in listed
    assert listed == sorted(listed)
    assert Job.list(queue="elsewhere", kubeconfig=kubeconfig) == []
    with pytest.raises(JobError, match=r'batchjobs.* "missing" not found'):
        Job.attach("missing", kubeconfig=kubeconfig)


def test_a_gang_of_several_tasks_starts_together(kubeconfig: Path) -> None:
    tasks = {
        "launcher": Task(command=["true"], image="busybox", cpu=0.1),
        "worker": Task(command=["true"], image="busybox", cpu=0.25, memory=2**28, replicas=2),
    }
    job = Job(tasks=tasks, name="several", plugins=["svc", "ssh=--ssh-port=2222"], kubeconfig=kubeconfig)
    worker = job.manifest["spec"]["tasks"][1]["template"]["spec"]["containers"][0]
    assert worker["resources"]["requests"] == {"cpu": "250m", "memory": "268435456"}
    assert repr(job) == '<Job "several": not submitted>'
    assert job.submit().wait(timeout=60) == "Completed"
    assert sorted(job.logs()) == ["several-launcher-0", "several-worker-0", "several-worker-1"]
    with pytest.raises(JobError, match="tasks: leave out command"):
        Job(["true"], tasks=tasks)


async def test_a_notebook_shows_the_job_while_its_own_loop_runs(kubeconfig: Path) -> None:
    job = Job(["true"], name="shown", image="busybox", cpu=0.1, kubeconfig=kubeconfig).submit()
    job.wait(timeout=60)
    page = job._repr_html_()
    assert page is not None
    assert "<b>shown</b> Completed" in page
    assert "<td>shown-main-0</td><td>Completed</td>" in page
    assert 'style="margin-left:' in page


def test_warnings_of_admission_are_warnings_of_python(kubeconfig: Path) -> None:
    job = Job(["true"], image="busybox", cpu=4000, kubeconfig=kubeconfig)
    with pytest.warns(AdmissionWarning, match="no node is large enough: cpu requested 4000") as caught:
        job.submit()
    assert caught[0].filename == "volcanopy"
    job.cancel()


def test_no_module_of_the_package_hides_a_name_of_the_sdk() -> None:
    folder = Path(volcanopy.__file__).parent
    assert [name for name in volcanopy._SDK if (folder / name).exists() or (folder / f"{name}.py").exists()] == []


def test_importing_the_package_imports_only_its_version() -> None:
    program = "import sys, volcanopy; print([name for name in sys.modules if name.startswith('volcanopy.')])"
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        == "['volcanopy.version']\n"
    )

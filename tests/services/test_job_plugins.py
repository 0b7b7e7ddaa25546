"""Job plugins on an API server: all of what they make is accepted, and those that others have written are at work, too."""

import shutil
import tomllib
from pathlib import Path

import pytest

from tests.jobcontroller.plugins.cases import CASES
from tests.services.service_cluster import Cluster, controller, task
from tests.services.test_admission import admission
from tests.services.test_entry_points import install
from volcanopy.api.batch import BatchJob
from volcanopy.installed.entry_points import ThirdPartyError
from volcanopy.installed.job_plugins import JOB_PLUGINS as GROUP
from volcanopy.installed.job_plugins import job_registry
from volcanopy.jobcontroller.plugins.plugin import JobPlugin
from volcanopy.jobcontroller.plugins.registry import JOB_PLUGINS, plugin_problems
from volcanopy.kube.client.errors import ApiError
from volcanopy.kube.client.kinds import Json, Kind

EXAMPLE = Path(__file__).parents[2] / "examples" / "job-plugin"
SERVICES: Kind[Json] = Kind("", "v1", "Service", "services", True, dict)


async def test_an_api_server_accepts_all_plugin_objects_and_each_job_completes(cluster: Cluster) -> None:
    async with controller(cluster):
        for name, case in CASES.items():
            await cluster.submit(name, *case["spec"]["tasks"], plugins=case["spec"]["plugins"])
        await cluster.until(lambda: all(cluster.phase(name) == "Completed" for name in CASES), 60.0)
        replicas = sum(task["replicas"] for case in CASES.values() for task in case["spec"]["tasks"])
        assert len(cluster.pods) == replicas


@pytest.fixture
def dask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example is installed."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())
    (module,) = project["tool"]["setuptools"]["py-modules"]
    install(tmp_path, monkeypatch, module, project["project"]["entry-points"])
    shutil.copy(EXAMPLE / f"{module}.py", tmp_path / module)


@pytest.mark.usefixtures("dask")
async def test_the_example_plugin_prepares_the_pods_of_a_job(cluster: Cluster) -> None:
    cluster.ends = ""
    async with controller(cluster):
        await cluster.submit("sum", task("scheduler"), task("worker", 2), plugins={"dask": []})
        await cluster.until(lambda: cluster.phase("sum") == "Running")
        (container,) = cluster.pods["sum-worker-1"]["spec"]["containers"]
        assert {"name": "DASK_SCHEDULER_ADDRESS", "value": "tcp://sum-scheduler-0.sum:8786"} in container["env"]
        assert cluster.pods["sum-worker-1"]["spec"]["subdomain"] == "sum"
        service = await cluster.client.get(SERVICES, cluster.namespace, "sum-dashboard")
        assert service["spec"]["ports"][0]["targetPort"] == 8787


@pytest.mark.usefixtures("dask")
async def test_admission_knows_the_example_plugin(cluster: Cluster) -> None:
    async with admission(cluster):
        await cluster.submit("good", task("scheduler"), plugins={"dask": ["--port=9000"]})
        with pytest.raises(
            ApiError, match=r"'--prt' is no argument for plugin dask\. dask takes --scheduler=scheduler, "
        ):
            await cluster.submit("bad", task("scheduler"), plugins={"dask": ["--prt=9000"]})
        with pytest.raises(ApiError, match="task scheduler has 2 replicas: give it one"):
            await cluster.submit("bad", task("scheduler", 2), plugins={"dask": []})


@pytest.mark.usefixtures("dask")
def test_external_plugins_run_after_builtin_ones() -> None:
    assert list(job_registry()) == [*JOB_PLUGINS, "dask"]
    job = {"metadata": {"name": "a"}, "spec": {"tasks": [task()], "plugins": {"dask": []}}}
    (problem,) = plugin_problems(BatchJob.read(job), job_registry())
    assert "Not found: job plugin" not in problem.message
    assert issubclass(job_registry()["dask"], JobPlugin)


def test_without_packages_only_builtin_job_plugins_exist() -> None:
    assert dict(job_registry()) == dict(JOB_PLUGINS)


BROKEN = """
from volcanopy.jobcontroller.plugins.plugin import Arguments, JobPlugin


class Nothing(Arguments):
    pass


class Lone(JobPlugin[Nothing]):
    name = "lone"
    implies = ("absent",)


class Words(JobPlugin[Nothing]):
    name = "words"
    implies = "svc"


class Bare(JobPlugin):
    name = "bare"


class Ssh(JobPlugin[Nothing]):
    name = "ssh"


number = 3
"""


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        (
            "number",
            "broken:number",
            "job plugin 'number' of package broken 1.0 (entry point broken:number) is an object of the type int, not a subclass of"
            " volcanopy.jobcontroller.plugins.plugin.JobPlugin",
        ),
        (
            "other",
            "broken:Lone",
            "job plugin 'other' of package broken 1.0 (entry point broken:Lone) has the name 'lone': give it the name of its entry point",
        ),
        (
            "bare",
            "broken:Bare",
            "job plugin 'bare' of package broken 1.0 (entry point broken:Bare) does not declare its arguments: name them in the"
            " brackets of JobPlugin[...]",
        ),
        (
            "words",
            "broken:Words",
            "job plugin 'words' of package broken 1.0 (entry point broken:Words) implies 'svc': give it a tuple of the names of plugins",
        ),
        (
            "lone",
            "broken:Lone",
            "job plugin 'lone' implies 'absent', which does not exist: install the package that has it, or uninstall this one",
        ),
        (
            "ssh",
            "broken:Ssh",
            "job plugin 'ssh' of package broken 1.0 has the name of a job plugin that comes with volcanopy: give it another",
        ),
    ],
)
def test_a_broken_package_gives_a_one_line_error(
    name: str, value: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "broken", {GROUP: {name: value}}, BROKEN)
    with pytest.raises(ThirdPartyError) as refused:
        job_registry()
    assert str(refused.value) == sentence

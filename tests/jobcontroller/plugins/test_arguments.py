"""Plugins are looked up by name; invalid arguments are rejected with the valid ones."""

import copy
from typing import Annotated

import pytest

from tests.jobcontroller.plugins.cases import CASES, active_plugins, named, pods
from tests.jobcontroller.world import Json, World, job, task
from volcanopy.api.batch import BatchJob
from volcanopy.jobcontroller.plugins.plugin import (
    OBJECT_KINDS,
    Arguments,
    JobPlugin,
    Needed,
    PluginError,
    Role,
    read_arguments,
)
from volcanopy.jobcontroller.plugins.registry import JOB_PLUGINS, plugin_problems, plugins_of
from volcanopy.jobcontroller.plugins.ssh import SshArguments
from volcanopy.jobcontroller.plugins.svc import SvcArguments
from volcanopy.services.controllers.effects import _OBJECTS


def problems(manifest: Json) -> list[str]:
    return [str(problem) for problem in plugin_problems(BatchJob.read(manifest))]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], (False, True)),
        (["--publish-not-ready-addresses"], (True, True)),
        (["-publish-not-ready-addresses=true", "--inject-hosts-env=false"], (True, False)),
        (["--publish-not-ready-addresses", "--inject-hosts-env=false"], (True, False)),
        (["--inject-hosts-env=false", "--inject-hosts-env"], (False, True)),
    ],
)
def test_arguments_are_those_of_a_command_line(given: list[str], expected: tuple[bool, bool]) -> None:
    read = read_arguments("svc", SvcArguments, given)
    assert isinstance(read, SvcArguments)
    assert (read.publish_not_ready_addresses, read.inject_hosts_env) == expected


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--ssh-prt=1"], "'--ssh-prt' is no argument for plugin ssh. ssh takes --ssh-key-file-path=/root/.ssh,"),
        (["--ssh-port=99999"], "argument --ssh-port of plugin ssh is '99999': Input should be less than"),
        (["--ssh-port=0"], "argument --ssh-port of plugin ssh is '0': Input should be greater than"),
        (["--ssh-port=x"], "argument --ssh-port of plugin ssh is 'x': Input should be a valid integer"),
        (["--ssh-port"], "argument --ssh-port needs a value for plugin ssh."),
        (["--ssh-prt"], "'--ssh-prt' is no argument for plugin ssh."),
        (["--ssh-private-kye", "SECRET"], "'--ssh-private-kye' is no argument for plugin ssh."),
        (["port"], "'port' is no argument for plugin ssh."),
        (
            ["--ssh-private-key=SECRET"],
            "arguments of plugin ssh: --ssh-private-key and --ssh-public-key are a pair: give both or neither. ssh takes",
        ),
    ],
)
def test_an_invalid_argument_is_rejected_with_the_usage(given: list[str], says: str) -> None:
    with pytest.raises(PluginError) as caught:
        read_arguments("ssh", SshArguments, given)
    assert str(caught.value).startswith(says)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("name", JOB_PLUGINS)
def test_every_plugin_rejects_unknown_arguments(name: str) -> None:
    (says,) = problems(job(named("master", 1), plugins={name: ["--colour=red"]}))
    assert says.startswith(f"spec.plugins.{name}: '--colour' is no argument for plugin {name}. {name} takes ")


def test_plugins_see_a_pod_in_a_fixed_order() -> None:
    """hcclrank is the last: it takes up the rank that pytorch gives."""
    backwards: dict[str, list[str]] = {name: [] for name in reversed(list(JOB_PLUGINS))}
    tasks = named("master", 1), named("worker", 1, "worker"), named("head", 1, "head")
    assert [plugin.name for plugin in active_plugins(job(*tasks, plugins=backwards))] == list(JOB_PLUGINS)
    assert list(JOB_PLUGINS)[:3] == ["env", "svc", "ssh"]
    assert list(JOB_PLUGINS)[-1] == "hcclrank"


@pytest.mark.parametrize(
    ("name", "brings"),
    [
        ("env", set()),
        ("svc", set()),
        ("ssh", set()),
        ("tensorflow", {"svc"}),
        ("pytorch", {"svc"}),
        ("mpi", {"svc", "ssh"}),
        ("ray", {"svc"}),
        ("jax", {"svc"}),
        ("paddle", {"svc"}),
        ("hcclrank", set()),
    ],
)
def test_a_plugin_enables_its_dependencies(name: str, brings: set[str]) -> None:
    tasks = named("master", 1), named("worker", 1, "worker"), named("head", 1, "head")
    assert {plugin.name for plugin in active_plugins(job(*tasks, plugins={name: []}))} == {name} | brings


def test_an_enabled_dependency_keeps_the_arguments_of_the_job() -> None:
    result = active_plugins(job(named("master", 1), plugins={"mpi": [], "ssh": ["--ssh-port=2022"]}))
    assert next(plugin for plugin in result if plugin.name == "ssh").arguments.ssh_port == 2022


def test_objects_of_dependencies_are_created_listed_and_deleted() -> None:
    world = World(job(task("master"), task("worker", 2), plugins={"mpi": []})).started()
    made = {"ConfigMap/job-svc", "Service/job", "NetworkPolicy/job", "Secret/job-ssh", "ConfigMap/job-mpi"}
    assert set(world.objects) == made
    assert world.status["controlledResources"] == {f"plugin-{name}": name for name in ("mpi", "ssh", "svc")}
    world.succeed().settle()
    assert (world.phase, world.objects, world.status.get("controlledResources")) == ("Completed", {}, None)


def test_every_problem_with_plugins_has_its_path() -> None:
    read = BatchJob.read(job(plugins={"nope": [], "env": ["-x"], "svc": []}))
    assert [problem.path for problem in plugin_problems(read)] == ["spec.plugins.nope", "spec.plugins.env"]


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        (
            job(task("worker"), plugins={"mpi": []}),
            'spec.plugins.mpi: Not found: task "master" of argument --master: tasks of the job are "worker"',
        ),
        (
            job(task("master"), plugins={"pytorch": ["--worker=wrokers"]}),
            'spec.plugins.pytorch: Not found: task "wrokers" of argument --worker: tasks of the job are "master"',
        ),
        (
            job(task("a", 2), task("b"), plugins={"tensorflow": []}),
            "spec.plugins.tensorflow: none of its tasks is one of ps, worker, chief, evaluator: name one, for example with --worker",
        ),
        (
            job(named("head", 1, "main"), plugins={"ray": []}),
            "spec.plugins.ray: task head has no container 'head' for Ray to run in: choose one of main, by --headContainer",
        ),
        (
            job(named("head", 1, "head"), named("worker", 1, "x"), plugins={"ray": ["--workerContainer=y"]}),
            "spec.plugins.ray: task worker has no container 'y' for Ray to run in: choose one of x, by --workerContainer",
        ),
        (
            job(named("head", 1, "head"), plugins={"ray": ["--port=8265"]}),
            "spec.plugins.ray: --port, --dashboardPort and --clientPort must be three different ports",
        ),
        (
            job(named("h", 1, "head"), name="j" * 58, plugins={"ray": ["--head=h"]}),
            f"metadata.name: the head's service would be called {'j' * 58}-head-svc, which has 67 characters: 63 are allowed",
        ),
        (
            job(name="1j", plugins={"svc": []}),
            'metadata.name: Invalid value: "1j": must begin with a letter and contain no dots: plugin svc creates a Service of this name',
        ),
        (
            job(task("master"), name="1j", plugins={"pytorch": []}),
            'metadata.name: Invalid value: "1j": must begin with a letter and contain no dots: plugin svc creates a Service of this name',
        ),
        (
            job(task(replicas=10_000), name="a-long-name", plugins={"svc": []}),
            "spec.plugins.svc: the hosts of task a do not fit into a variable of the environment (128 KiB): give svc the argument"
            " --inject-hosts-env=false, and read /etc/volcano",
        ),
        (
            job(task(replicas=50_000), plugins={"svc": ["--inject-hosts-env=false"]}),
            "spec.plugins.svc: its hosts take 1577783 bytes, and the limit of a ConfigMap is 1048576: shorten the names of the job and its tasks,"
            " or divide the job",
        ),
    ],
)
def test_a_job_that_a_plugin_does_not_support_is_rejected(manifest: Json, says: str) -> None:
    assert problems(manifest) == [says]


def test_a_large_job_is_accepted_without_the_environment() -> None:
    assert not problems(job(task(replicas=10_000), plugins={"svc": ["--inject-hosts-env=false"]}))


def test_an_unsupported_job_in_the_store_waits_with_a_reason() -> None:
    world = World(job(task("worker"), plugins={"mpi": []})).settle()
    assert (world.phase, world.pods, world.objects) == ("Pending", {}, {})
    assert world.message.startswith('Not found: task "master"')


class MessageArguments(Arguments):
    """Arguments of a plugin that others have written."""

    leader: Annotated[str, Role()] = "leader"
    """Who leads."""


class Base(JobPlugin[MessageArguments]):
    """One that others derive theirs from."""

    name = "base"
    implies = ("next",)


class Next(Base):
    """It has the arguments of its base, and brings back whom it was brought by."""

    name = "next"
    implies = ("base",)


def test_plugins_may_inherit_from_and_depend_on_each_other() -> None:
    registry = {"base": Base, "next": Next}
    result = plugins_of(BatchJob.read(job(plugins={"next": ["--leader=a"]})), registry)
    assert [(plugin.name, plugin.arguments.leader) for plugin in result] == [("base", "leader"), ("next", "a")]


def test_plugins_create_only_objects_that_the_controller_supports() -> None:
    message = "no Deployment can be made for a job: it must be one of ConfigMap, Secret, Service, NetworkPolicy, "
    with pytest.raises(PluginError, match=message):
        Needed({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}})
    assert set(OBJECT_KINDS) == set(_OBJECTS)


def test_a_missing_dependency_is_named() -> None:
    with pytest.raises(PluginError, match='Not found: job plugin "next": job plugins are "base"'):
        plugins_of(BatchJob.read(job(plugins={"base": []})), {"base": Base})


@pytest.mark.parametrize("name", CASES)
def test_a_plugin_leaves_unnamed_entries_of_a_template_to_the_api_server_which_rejects_them(name: str) -> None:
    manifest = copy.deepcopy(CASES[name])
    for entry in manifest["spec"]["tasks"]:
        spec = entry["template"]["spec"]
        for container in spec["containers"]:
            for key in ("env", "volumeMounts", "ports"):
                container[key] = [{}, *container.get(key, ())]
        spec["initContainers"] = [{}, *spec.get("initContainers", ())]
    assert pods(manifest).keys() == pods(CASES[name]).keys()

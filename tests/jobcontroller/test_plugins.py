"""Plugins are found by name and understand their arguments, or say what they would understand."""

import pytest

from tests.jobcontroller.world import job
from volcanopy.api.batch import BatchJob
from volcanopy.jobcontroller.plugins.plugin import PluginError, read_arguments
from volcanopy.jobcontroller.plugins.registry import JOB_PLUGINS, plugin_problems, plugins_of
from volcanopy.jobcontroller.plugins.ssh import SshArguments
from volcanopy.jobcontroller.plugins.svc import SvcArguments


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], (False, True)),
        (["--publish-not-ready-addresses"], (True, True)),
        (["-publish-not-ready-addresses=true", "--inject-hosts-env=false"], (True, False)),
        (["--publish-not-ready-addresses", "--inject-hosts-env=false"], (True, False)),
    ],
)
def test_arguments_are_those_of_a_command_line(given: list[str], expected: tuple[bool, bool]) -> None:
    read = read_arguments("svc", SvcArguments, given)
    assert isinstance(read, SvcArguments)
    assert (read.publish_not_ready_addresses, read.inject_hosts_env) == expected


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--ssh-prt=1"], "argument --ssh-prt of plugin ssh is not known. ssh takes --ssh-key-file-path=/root/.ssh,"),
        (["--ssh-port=99999"], "argument --ssh-port of plugin ssh is '99999': Input should be less than"),
        (["--ssh-port=x"], "argument --ssh-port of plugin ssh is 'x': Input should be a valid integer"),
        (["--ssh-port"], "argument --ssh-port needs a value for plugin ssh."),
        (["port"], "'port' is no argument for plugin ssh."),
    ],
)
def test_a_wrong_argument_is_refused_with_the_usage(given: list[str], says: str) -> None:
    with pytest.raises(PluginError) as caught:
        read_arguments("ssh", SshArguments, given)
    assert str(caught.value).startswith(says)


def test_plugins_see_a_pod_in_a_fixed_order() -> None:
    found = plugins_of(BatchJob.read(job(plugins={"ssh": [], "env": [], "svc": []})))
    assert [plugin.name for plugin in found] == list(JOB_PLUGINS) == ["env", "svc", "ssh"]


def test_every_problem_with_plugins_has_its_path() -> None:
    read = BatchJob.read(job(plugins={"nope": [], "env": ["-x"], "svc": []}))
    assert [problem.path for problem in plugin_problems(read)] == ["spec.plugins.env", "spec.plugins.nope"]

"""Which job plugins there are, by name. The order here is the order in which they see a pod."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from volcanopy.api.batch import BatchJob
from volcanopy.api.model import Problem
from volcanopy.jobcontroller.plugins.env import Env
from volcanopy.jobcontroller.plugins.plugin import JobPlugin, PluginError, read_arguments
from volcanopy.jobcontroller.plugins.ssh import Ssh
from volcanopy.jobcontroller.plugins.svc import Svc

Registry = Mapping[str, type[JobPlugin[Any]]]

JOB_PLUGINS: Registry = MappingProxyType({plugin.name: plugin for plugin in (Env, Svc, Ssh)})


def plugins_of(job: BatchJob, registry: Registry = JOB_PLUGINS) -> Sequence[JobPlugin[Any]]:
    """The plugins that a job names, ready for work. Raises PluginError for an unknown one and for wrong arguments."""
    if unknown := sorted(set(job.spec.plugins) - set(registry)):
        raise PluginError(f"there is no job plugin {unknown[0]!r}: choose from {', '.join(registry)}")
    return tuple(
        plugin(job, read_arguments(name, plugin.arguments_model, job.spec.plugins[name]))
        for name, plugin in registry.items()
        if name in job.spec.plugins
    )


def plugin_problems(job: BatchJob, registry: Registry = JOB_PLUGINS) -> Iterator[Problem]:
    """Everything that is wrong with the plugins that a job names, for admission to refuse it."""
    for name, arguments in sorted(job.spec.plugins.items()):
        plugin = registry.get(name)
        if plugin is None:
            yield Problem(f"spec.plugins.{name}", f"there is no job plugin {name!r}: choose from {', '.join(registry)}")
            continue
        try:
            read_arguments(name, plugin.arguments_model, arguments)
        except PluginError as error:
            yield Problem(f"spec.plugins.{name}", str(error))

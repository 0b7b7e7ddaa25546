"""Which job plugins there are, by name. The order here is the order in which they see a pod."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from volcanopy.api.batch import BatchJob
from volcanopy.api.model import Problem, invalid, not_found, quoted
from volcanopy.jobcontroller.plugins.env import Env
from volcanopy.jobcontroller.plugins.frameworks import Jax, Paddle, Pytorch, Tensorflow
from volcanopy.jobcontroller.plugins.hcclrank import Hcclrank
from volcanopy.jobcontroller.plugins.mpi import Mpi
from volcanopy.jobcontroller.plugins.plugin import (
    JobPlugin,
    PluginError,
    missing_roles,
    read_arguments,
    split_unknown,
    usage,
)
from volcanopy.jobcontroller.plugins.ray import Ray
from volcanopy.jobcontroller.plugins.ssh import Ssh
from volcanopy.jobcontroller.plugins.svc import Svc

Registry = Mapping[str, type[JobPlugin[Any]]]

# Names and addresses first, then those that use them; hcclrank last, since it takes up a rank that another has given.
JOB_PLUGINS: Registry = MappingProxyType(
    {plugin.name: plugin for plugin in (Env, Svc, Ssh, Tensorflow, Pytorch, Mpi, Ray, Jax, Paddle, Hcclrank)}
)


def plugins_of(job: BatchJob, registry: Registry = JOB_PLUGINS) -> Sequence[JobPlugin[Any]]:
    """The plugins that a job names or that come with those, ready for work. Raises PluginError if one is not valid."""
    results = tuple(_read(job, registry))
    if problem := next((item for item in results if isinstance(item, Problem) and not item.warning), None):
        raise PluginError(problem.message)
    return tuple(item for item in results if isinstance(item, JobPlugin))


def plugin_problems(job: BatchJob, registry: Registry = JOB_PLUGINS) -> Iterator[Problem]:
    """Return the problems of the plugins of a job, and warnings about arguments that are ignored."""
    return (item for item in _read(job, registry) if isinstance(item, Problem))


def _read(job: BatchJob, registry: Registry) -> Iterator[JobPlugin[Any] | Problem]:
    requested = _with_implied(job.spec.plugins, registry)
    for name in sorted(set(requested) - set(registry)):
        yield not_found(f"spec.plugins.{name}", "job plugin", name, f"job plugins are {quoted(registry)}")
    for name, plugin in registry.items():
        if name not in requested:
            continue
        model, given = plugin.arguments_model, requested[name]
        if job.binding.ignores_arguments:
            given, unknown = split_unknown(model, given)
            for argument in unknown:
                message = f"argument {argument} has no effect: {usage(name, model)}"
                yield Problem(f"spec.plugins.{name}", message, warning=True)
        try:
            made = plugin(job, read_arguments(name, model, given))
        except PluginError as error:
            yield Problem(f"spec.plugins.{name}", str(error))
            continue
        # A plugin that looks for problems of its own may rely on the tasks in its arguments.
        yield from tuple(missing_roles(made)) or (*_replacement_problems(made), *made.problems()) or (made,)


def _replacement_problems(plugin: JobPlugin[Any]) -> Iterator[Problem]:
    if plugin.needs_pod_names and plugin.job.spec.replaces_terminating:
        message = (
            f'podReplacementPolicy must be Failed: job plugin "{plugin.name}" needs pods named <job>-<task>-<index>'
        )
        yield invalid("spec.podReplacementPolicy", plugin.job.spec.pod_replacement_policy, message)


def _with_implied(named: Mapping[str, Sequence[str]], registry: Registry) -> Mapping[str, Sequence[str]]:
    result = dict(named)
    waiting = list(named)
    while waiting:
        plugin = registry.get(waiting.pop())
        new = [name for name in (plugin.implies if plugin else ()) if name not in result]
        result |= dict.fromkeys(new, ())
        waiting += new
    return result

"""Which job plugins there are, by name. The order here is the order in which they see a pod."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from volcanopy.api.batch import BatchJob
from volcanopy.api.model import Problem
from volcanopy.jobcontroller.plugins.env import Env
from volcanopy.jobcontroller.plugins.hcclrank import Hcclrank
from volcanopy.jobcontroller.plugins.jax import Jax
from volcanopy.jobcontroller.plugins.mpi import Mpi
from volcanopy.jobcontroller.plugins.paddle import Paddle
from volcanopy.jobcontroller.plugins.plugin import JobPlugin, PluginError, missing_roles, read_arguments
from volcanopy.jobcontroller.plugins.pytorch import Pytorch
from volcanopy.jobcontroller.plugins.ray import Ray
from volcanopy.jobcontroller.plugins.ssh import Ssh
from volcanopy.jobcontroller.plugins.svc import Svc
from volcanopy.jobcontroller.plugins.tensorflow import Tensorflow

Registry = Mapping[str, type[JobPlugin[Any]]]

# Names and addresses first, then those that use them; hcclrank last, since it takes up a rank that another has given.
JOB_PLUGINS: Registry = MappingProxyType(
    {plugin.name: plugin for plugin in (Env, Svc, Ssh, Tensorflow, Pytorch, Mpi, Ray, Jax, Paddle, Hcclrank)}
)


def plugins_of(job: BatchJob, registry: Registry = JOB_PLUGINS) -> Sequence[JobPlugin[Any]]:
    """The plugins that a job names or that come with those, ready for work. Raises PluginError if one cannot work."""
    found = tuple(_read(job, registry))
    if problem := next((one for one in found if isinstance(one, Problem)), None):
        raise PluginError(problem.message)
    return tuple(one for one in found if isinstance(one, JobPlugin))


def plugin_problems(job: BatchJob, registry: Registry = JOB_PLUGINS) -> Iterator[Problem]:
    """Everything that is wrong with the plugins that a job names, for admission to refuse it."""
    return (one for one in _read(job, registry) if isinstance(one, Problem))


def _read(job: BatchJob, registry: Registry) -> Iterator[JobPlugin[Any] | Problem]:
    wanted = _with_implied(job.spec.plugins, registry)
    for name in sorted(set(wanted) - set(registry)):
        yield Problem(f"spec.plugins.{name}", f"there is no job plugin {name!r}: choose from {', '.join(registry)}")
    for name, plugin in registry.items():
        if name not in wanted:
            continue
        try:
            made = plugin(job, read_arguments(name, plugin.arguments_model, wanted[name]))
        except PluginError as error:
            yield Problem(f"spec.plugins.{name}", str(error))
            continue
        # A plugin that looks for problems of its own may rely on the tasks that it is told of.
        yield from tuple(missing_roles(made)) or tuple(made.problems()) or (made,)


def _with_implied(named: Mapping[str, Sequence[str]], registry: Registry) -> Mapping[str, Sequence[str]]:
    wanted = dict(named)
    waiting = list(named)
    while waiting:
        plugin = registry.get(waiting.pop())
        new = [name for name in (plugin.implies if plugin else ()) if name not in wanted]
        wanted |= dict.fromkeys(new, ())
        waiting += new
    return wanted

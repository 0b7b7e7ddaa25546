"""Job plugins: those of volcanopy and those of installed packages."""

from typing import Any

from volcanopy.installed.entry_points import Installed, Loaded, ThirdPartyError, what
from volcanopy.jobcontroller.plugins import plugin as jobplugin
from volcanopy.jobcontroller.plugins import registry as jobregistry

JOB_PLUGINS = "volcanopy.job_plugins"


def job_registry() -> jobregistry.Registry:
    """Return the job plugins of volcanopy, then those of all installed packages by name. Raises ThirdPartyError."""
    plugins = dict(Installed("job plugin", JOB_PLUGINS, jobregistry.JOB_PLUGINS, _job_plugin))
    for plugin in plugins.values():
        if unknown := next((name for name in plugin.implies if name not in plugins), None):
            problem = f"job plugin {plugin.name!r} implies {unknown!r}, which does not exist"
            raise ThirdPartyError(f"{problem}: install the package that has it, or uninstall this one")
    return plugins


def _job_plugin(candidate: Loaded) -> type[jobplugin.JobPlugin[Any]]:
    plugin = candidate.item
    is_plugin = isinstance(plugin, type) and issubclass(plugin, jobplugin.JobPlugin)
    base = "volcanopy.jobcontroller.plugins.plugin.JobPlugin"
    candidate.must(is_plugin, f"is {what(plugin)}, not a subclass of {base}")
    candidate.must_be_named()
    model = getattr(plugin, "arguments_model", None)
    is_model = isinstance(model, type) and issubclass(model, jobplugin.Arguments)
    candidate.must(is_model, "does not declare its arguments: name them in the brackets of JobPlugin[...]")
    implied = plugin.implies
    are_names = isinstance(implied, tuple) and all(isinstance(name, str) for name in implied)
    candidate.must(are_names, f"implies {implied!r}: give it a tuple of the names of plugins")
    checked: type[jobplugin.JobPlugin[Any]] = plugin
    return checked

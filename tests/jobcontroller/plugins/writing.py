"""The files that follow from the job plugins: the golden pods, and the reference in docs.

``python -m tests.jobcontroller.plugins.writing`` writes them anew; a test compares them with what is there.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.jobcontroller.plugins.cases import CASES, active_plugins, objects, pods
from tests.jobcontroller.world import Json
from volcanopy.api.attribute_docstrings import attribute_docstrings
from volcanopy.jobcontroller.plugins.plugin import Arguments, JobPlugin, Role
from volcanopy.jobcontroller.plugins.registry import JOB_PLUGINS

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = Path(__file__).parent / "golden"
REFERENCE = ROOT / "docs" / "job-plugins.md"

INTRODUCTION = """\
# Job plugins

A job plugin prepares the pods of a job to work together. A job names its plugins, with arguments as on a command line:

```yaml part
spec:
  plugins:
    svc: [--publish-not-ready-addresses]
    ssh: [--ssh-port=2022]
```

`--key=value` and `--key value` are equal, one dash is the same as two, and a switch needs no value. Admission rejects unknown plugins,
arguments and values, and lists the valid ones. It also rejects the name of a task that the job does not have.

Plugins are applied in the order of this page, independent of the order in the job. A plugin does not change what the manifest of a
container sets: a variable, a port, a mount. Its variables precede those of the manifest, whose values can contain them, such as
`run-$(VC_TASK_INDEX)`. The controller creates the objects of a plugin before the pods, updates them when the job is
scaled, keeps them through restarts, and deletes them when the job has stopped.

## Write a job plugin

A Python package provides a plugin as an entry point of the group `volcanopy.job_plugins`;
[examples/job-plugin](../examples/job-plugin) is an example. Install it where the job controller and admission run. A plugin is a
subclass of `volcanopy.jobcontroller.plugins.plugin.JobPlugin`. Its methods are pure: `pod` receives
each pod before it is created, `objects` returns the objects that the job needs (ConfigMaps, Secrets, Services, NetworkPolicies),
`problems` returns the reasons why the plugin cannot be used in a job. A plugin that does not rely on the names of
pods states `needs_pod_names = False`: its jobs may have `podReplacementPolicy: TerminatingOrFailed`.

"""


class _Dumper(yaml.SafeDumper):
    """YAML as a person would write it: texts of several lines as blocks, nothing by reference."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def golden(manifest: Json) -> str:
    """A job, its pods and the objects; of their metadata, what plugins have no part in is left out."""
    reported = {key: manifest["metadata"][key] for key in ("name", "namespace")}
    job = {"apiVersion": manifest["apiVersion"], "kind": "BatchJob", "metadata": reported, "spec": manifest["spec"]}
    bare = pods(manifest | {"spec": manifest["spec"] | {"plugins": {}}})
    made = [pod | {"metadata": _added(bare[name]["metadata"], pod["metadata"])} for name, pod in pods(manifest).items()]
    kept = [obj | {"metadata": {"name": obj["metadata"]["name"]}} for obj in objects(manifest).values()]
    return yaml.dump_all([job, *made, *kept], Dumper=_Dumper, sort_keys=False, width=120)


def _added(before: Json, after: Json) -> Json:
    """A pod's name, and the labels and annotations that it has from plugins."""
    named: Json = {"name": after["name"]}
    for kind in ("labels", "annotations"):
        new = {key: value for key, value in after[kind].items() if before[kind].get(key) != value}
        named |= {kind: new} if new else {}
    return named


def reference() -> str:
    """docs/job-plugins.md."""
    return INTRODUCTION + "\n".join("\n".join(_section(plugin)) for plugin in JOB_PLUGINS.values())


def _section(plugin: type[JobPlugin[Any]]) -> Iterator[str]:
    yield f"## {plugin.name}"
    yield ""
    yield from _paragraphs(plugin.__doc__ or "")
    if plugin.implies:
        yield f"Also enables: {', '.join(f'[{name}](#{name})' for name in plugin.implies)}."
        yield ""
    if plugin.arguments_model.model_fields:
        yield from _arguments(plugin.arguments_model)
    else:
        yield "It takes no arguments."
    yield ""
    yield from _additions(plugin.name)
    yield ""


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.strip().split("\n\n"):
        yield " ".join(paragraph.split()).replace("``", "`")
        yield ""


def _arguments(model: type[Arguments]) -> Iterator[str]:
    yield "| argument | default | meaning |"
    yield "|---|---|---|"
    meanings = attribute_docstrings(model)
    for name, field in model.model_fields.items():
        default = f"`{str(field.default).lower() if field.annotation is bool else field.default}`"
        role = next((mark for mark in field.metadata if isinstance(mark, Role)), None)
        says = meanings.get(name, "").replace("``", "`") + (" Required." if role and role.required else "")
        yield f"| `--{field.alias}` | {default if field.default != '' else 'none'} | {says} |"


def _additions(name: str) -> Iterator[str]:
    """What the plugin itself adds to the job that shows it."""
    alone = {plugin.name: plugin for plugin in JOB_PLUGINS.values() if plugin.name == name}
    bare = {key: type(key, (plugin,), {"implies": ()}) for key, plugin in alone.items()}
    job = CASES[name]
    before, after = pods(job | {"spec": job["spec"] | {"plugins": {}}}), pods(job, bare)
    result = {what: "" for item in after for what in _differences(before[item], after[item])}
    for needed in (needed.manifest for plugin in active_plugins(job, bare) for needed in plugin.objects()):
        result[f"{needed['kind']} `{re.sub(r'^job', '<job>', needed['metadata']['name'])}`"] = ""
    yield from (f"- {what}" for what in result)


def _differences(before: Json, after: Json) -> Iterator[str]:
    for key in ("hostname", "subdomain"):
        if key not in before["spec"] and key in after["spec"]:
            yield f"the pod's `{key}`"
    for note in after["metadata"]["annotations"]:
        if note not in before["metadata"]["annotations"]:
            yield f"annotation `{note}`"
    was, now = before["spec"]["containers"][0], after["spec"]["containers"][0]
    for entry in now.get("env") or ():
        variable = re.sub(r"^VC_(PS|GPU_WORKER)_", "VC_<TASK>_", entry["name"])
        yield f"variable `{variable}`"
    for port in now.get("ports") or ():
        yield f"port `{port['name']}`, {port['containerPort']}"
    for mount in now.get("volumeMounts") or ():
        yield f"files in `{mount['mountPath']}`"
    if was.get("command") != now.get("command"):
        yield f"command `{now['command'][-1].replace('job-', '<job>-').replace('.job:', '.<job>:')}`"


def main() -> None:
    """Write all of them."""
    GOLDEN.mkdir(exist_ok=True)
    for stale in GOLDEN.glob("*.yaml"):
        stale.unlink()
    for name, manifest in CASES.items():
        (GOLDEN / f"{name}.yaml").write_text(golden(manifest))
    REFERENCE.write_text(reference())


if __name__ == "__main__":
    main()

"""Plugins and actions of other packages."""

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from volcanopy.api.config_file import ConfigError
from volcanopy.installed.entry_points import ThirdPartyError
from volcanopy.installed.scheduler_plugins import ACTIONS, PLUGINS, registry
from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.policy.config import OPTIONAL, parse
from volcanopy_testing.notation import snapshot

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, points: Mapping[str, Mapping[str, str]], code: str = ""
) -> None:
    """Install a package as pip would: its one module and its metadata."""
    home = folder / name
    about = home / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in said.items()) for group, said in points.items()
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))
    if code:
        (home / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.delitem(sys.modules, name, raising=False)


def test_without_packages_of_others_only_the_plugins_of_volcanopy_exist() -> None:
    assert registry().plugins.keys() == builtin().plugins.keys() | OPTIONAL
    assert registry().actions.keys() == builtin().actions.keys()


def test_optional_policies_are_imported_when_a_configuration_names_them() -> None:
    program = """
import sys
from volcanopy.installed.scheduler_plugins import registry
from volcanopy.scheduler.policy.config import default, parse
policies = lambda: sorted(name for name in sys.modules if name.startswith("volcanopy_policies."))
plugins = registry()
default(plugins)
print(policies())
parse("actions: allocate\\ntiers: [{plugins: [{name: demand}]}]", plugins)
print(policies())
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n['volcanopy_policies.demand']\n"


@pytest.mark.parametrize("name", sorted(OPTIONAL))
def test_the_error_about_an_optional_policy_that_is_not_installed_names_the_extra(name: str) -> None:
    sentence = rf"tiers\[0\]\.plugins\[0\]\.name: plugin '{name}' is not installed: install volcanopy\[policies\]$"
    with pytest.raises(ConfigError, match=sentence):
        parse(f"actions: allocate\ntiers: [{{plugins: [{{name: {name}}}]}}]", builtin())


def test_a_broken_package_that_no_configuration_names_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "broken", {PLUGINS: {"good": "nowhere:Good"}})
    parse("actions: allocate\ntiers: [{plugins: [{name: gang}]}]", registry())
    with pytest.raises(ConfigError, match=r"plugin .good. of package broken 1\.0"):
        parse("actions: allocate\ntiers: [{plugins: [{name: good}]}]", registry())


def test_the_example_plugin_is_loaded_by_its_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())
    module = "volcanopy_cheapest"
    install(tmp_path, monkeypatch, module, project["project"]["entry-points"])
    for name in project["tool"]["setuptools"]["py-modules"]:
        shutil.copy(EXAMPLE / f"{name}.py", tmp_path / module)
    result = registry()
    config = parse(
        "actions: allocate\ntiers:\n- plugins:\n  - {name: cheapest, arguments: {cheapest.at-most: 2.5}}\n  - name: gang",
        result,
    )
    prices = {"n1": 2, "n2": 1, "n3": 3}
    nodes = [f"node {name} cpu=2 label.example.com/price-per-hour={price}" for name, price in prices.items()]
    world = "\n".join([*nodes, "job a: 4 x cpu=1", "job b: 1 x cpu=1"])
    plan = schedule(snapshot(world), config, result)
    assert [effect.node for effect in plan.of(Bind)] == ["n2", "n2", "n1", "n1"]
    assert "1 node(s) exceeded the maximum price" in str(plan)


ACTION = """
from volcanopy.plugin import Arguments


class Times(Arguments):
    times: int = 1


class Wave:
    name = "wave"
    arguments = Times

    def __call__(self, session, arguments):
        session.waved = arguments.times


class Listing(Wave):
    name = "listing"
    arguments = ("times",)


wave = Wave()
nameless = lambda session, arguments: None
number = 3
"""


@pytest.mark.parametrize("value", ["waving:Wave", "waving:wave"])
def test_an_action_may_be_a_class_or_an_instance(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "waving", {ACTIONS: {"wave": value}}, ACTION)
    result = registry()
    config = parse("actions: allocate, wave\nconfigurations: [{name: wave, arguments: {times: 2}}]", result)
    assert not schedule(snapshot("node n1 cpu=1"), config, result).of(Bind)


PLUGIN = """
from volcanopy.scheduler.policy.plugin import Plugin


class Good(Plugin):
    name = "good"


class Odd(Plugin):
    name = "odd"
    arguments = dict


class Gang(Plugin):
    name = "gang"
"""


@pytest.mark.parametrize(
    ("group", "name", "value", "sentence"),
    [
        (
            PLUGINS,
            "good",
            "broken:Absent",
            "plugin 'good' of package broken 1.0 (entry point broken:Absent) cannot be loaded: AttributeError: module 'broken' has no"
            " attribute 'Absent'; mend the package or uninstall it",
        ),
        (
            PLUGINS,
            "good",
            "nowhere:Good",
            "plugin 'good' of package broken 1.0 (entry point nowhere:Good) cannot be loaded: ModuleNotFoundError: No module named"
            " 'nowhere'; mend the package or uninstall it",
        ),
        (
            PLUGINS,
            "better",
            "broken:Good",
            "plugin 'better' of package broken 1.0 (entry point broken:Good) has the name 'good': give it the name of its entry point",
        ),
        (
            PLUGINS,
            "number",
            "broken:number",
            "plugin 'number' of package broken 1.0 (entry point broken:number) is an object of type int, not a subclass of"
            " volcanopy.plugin.Plugin",
        ),
        (
            PLUGINS,
            "odd",
            "broken:Odd",
            "plugin 'odd' of package broken 1.0 (entry point broken:Odd) declares <class 'dict'> as its arguments: declare a"
            " subclass of volcanopy.plugin.Arguments",
        ),
        (
            PLUGINS,
            "gang",
            "broken:Gang",
            "plugin 'gang' of package broken 1.0 has the name of a plugin that comes with volcanopy: give it another",
        ),
        (
            ACTIONS,
            "number",
            "broken:number",
            "action 'number' of package broken 1.0 (entry point broken:number) is an object of the type int, which cannot be called: give it"
            " __call__(session, arguments)",
        ),
        (
            ACTIONS,
            "nameless",
            "broken:nameless",
            "action 'nameless' of package broken 1.0 (entry point broken:nameless) has the name None: give it the name of its entry point",
        ),
        (
            ACTIONS,
            "listing",
            "broken:Listing",
            "action 'listing' of package broken 1.0 (entry point broken:Listing) does not declare its arguments: declare a subclass of"
            " volcanopy.plugin.Arguments",
        ),
    ],
)
def test_a_broken_package_gives_a_one_line_error(
    group: str, name: str, value: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "broken", {group: {name: value}}, PLUGIN + ACTION)
    with pytest.raises(ThirdPartyError) as refused:
        (registry().plugins if group == PLUGINS else registry().actions)[name]
    assert str(refused.value) == sentence


def test_two_packages_with_the_same_plugin_name_are_both_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("one", "two"):
        install(tmp_path, monkeypatch, package, {PLUGINS: {"good": f"{package}:Good"}}, PLUGIN)
    with pytest.raises(ThirdPartyError) as refused:
        registry()
    assert str(refused.value) == (
        "plugin 'good' of package two 1.0 has the name of one of package one 1.0: uninstall one of the two"
    )

"""Configuration file: compatibility with Volcano, and error messages."""

from dataclasses import replace

import pytest
import yaml

from volcanopy.api.config_file import ConfigError
from volcanopy.scheduler.policies.nodes.binpack import BinpackArguments
from volcanopy.scheduler.policy import keys_without_effect
from volcanopy.scheduler.policy.config import DEFAULT, SchedulerConfig, default, parse
from volcanopy_testing.notation import all_policies

VOLCANO = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
    arguments:
      overcommit-factor: 1.5
  - name: drf
    enablePreemptable: false
  - name: predicates
    arguments:
      predicate.CacheEnable: true
  - name: proportion
  - name: nodeorder
    arguments:
      leastrequested.weight: 0
      mostrequested.weight: 2
  - name: binpack
    arguments:
      binpack.weight: 10
      binpack.cpu: 5
      binpack.memory: 1
      binpack.resources: nvidia.com/gpu, example.com/foo
      binpack.resources.nvidia.com/gpu: 2
configurations:
- name: allocate
  arguments:
    predicateErrorCacheEnable: true
"""


def test_a_volcano_configuration_is_accepted_as_it_is() -> None:
    config = parse(VOLCANO, all_policies())
    assert config.actions == ("enqueue", "allocate", "backfill")
    assert [[plugin.name for plugin in tier] for tier in config.tiers] == [
        ["priority", "gang", "conformance"],
        ["overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack"],
    ]
    gang = config.tiers[0][1]
    assert gang.off == {"enablePreemptable"}
    binpack = config.tiers[1][-1].arguments
    assert isinstance(binpack, BinpackArguments)
    assert (binpack.weight, binpack.cpu) == (10, 5)
    assert binpack.resources == {"nvidia.com/gpu": 2, "example.com/foo": 1}


def test_the_default_is_that_of_the_chart() -> None:
    assert default(all_policies()) == parse(DEFAULT, all_policies())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("actions: 'allocat'", "actions: unknown action 'allocat', did you mean 'allocate'?"),
        ("actions: ''", 'actions: must name the actions in order, such as "enqueue, allocate, backfill"'),
        ("action: allocate", "the scheduler configuration: unknown key 'action', did you mean 'actions'?"),
        ("- a", "must be a mapping such as actions: allocate, is a list"),
        (
            "actions: allocate\ntiers:\n- plugins:\n  - name: binpak",
            "tiers[0].plugins[0].name: unknown plugin 'binpak', did you mean 'binpack'?",
        ),
        (
            "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n    enablePreemtable: false",
            "tiers[0].plugins[0] (gang): unknown key 'enablePreemtable', did you mean 'enablePreemptable'?",
        ),
        (
            "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n    enablePreemptable: 'no'",
            "tiers[0].plugins[0].enablePreemptable (gang): must be true or false, not 'no'",
        ),
        (
            "actions: allocate\ntiers:\n- plugins:\n  - name: binpack\n    arguments: {binpack.wieght: 1}",
            "tiers[0].plugins[0].arguments (binpack): unknown argument 'binpack.wieght', did you mean 'binpack.weight'?",
        ),
        (
            "actions: allocate\ntiers:\n- plugins:\n  - name: overcommit\n    arguments: {overcommit-factor: 0.5}",
            "tiers[0].plugins[0].arguments (overcommit).overcommit-factor: input should be greater than or equal to 1, not 0.5",
        ),
        (
            "actions: allocate\nconfigurations:\n- name: allocate\n  arguments: {predicateErrorCache: true}",
            (
                "configurations[0].arguments (allocate): unknown argument 'predicateErrorCache', did you mean"
                " 'predicateErrorCacheEnable'?"
            ),
        ),
        (
            "actions: allocate\nconfigurations:\n- name: allocate\n  arguments: [predicateErrorCacheEnable]",
            "configurations[0].arguments (allocate): must be a mapping",
        ),
        (
            "actions: allocate\ntiers:\n- plugins:\n  - name: capacity\n    arguments: {ancestorReclaimLevel: -1}",
            (
                "tiers[0].plugins[0].arguments (capacity).ancestorReclaimLevel: input should be greater than or equal to 0,"
                " not -1"
            ),
        ),
        (
            "actions: allocate\ntiers:\n- plugins:\n  - name: proportion\n  - name: drf\n    enableHierarchy: true",
            "tiers[0]: proportion and drf with enableHierarchy contradict each other: remove one of them",
        ),
    ],
)
def test_an_invalid_configuration_is_rejected_with_key_and_suggestion(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(text, all_policies())
    assert str(error.value) == sentence


def test_a_file_that_is_no_yaml_is_rejected_in_one_line() -> None:
    with pytest.raises(ConfigError) as error:
        parse("actions: allocate\ntiers: }", all_policies())
    assert str(error.value) == "line 2: invalid YAML: did not find expected node content"


SWITCHES = """
    enableJobOrder enableHierarchy enableJobReady enableJobPipelined enableTaskOrder enablePreemptable enableReclaimable
    enablePreemptive enableQueueOrder enabledClusterOrder enablePredicate enableBestNode enableNodeOrder enableTargetJob
    enableReservedNodes enableJobEnqueued enabledVictim enableJobStarving enabledOverused enabledAllocatable
    enabledHyperNodeOrder enabledSubJobReady enabledSubJobPipelined enabledSubJobOrder enabledHyperNodeGradient
"""


@pytest.mark.parametrize("switch", SWITCHES.split())
def test_every_switch_of_volcano_is_known(switch: str) -> None:
    text = f"actions: allocate\ntiers:\n- plugins:\n  - name: gang\n    {switch}: "
    assert parse(text + "true", all_policies()).tiers[0][0].off == frozenset()
    assert parse(text + "false", all_policies()).tiers[0][0].off <= {switch}


def with_arguments(plugin: str, of_plugin: str, action: str, of_action: str) -> SchedulerConfig:
    text = f"actions: {action}\ntiers:\n- plugins:\n  - {{name: {plugin}, arguments: {{{of_plugin}}}}}\n"
    return parse(text + f"configurations:\n- {{name: {action}, arguments: {{{of_action}}}}}", all_policies())


@pytest.mark.parametrize("value", ["true", "[1, 2]"])
def test_an_argument_without_effect_is_named_in_a_warning_and_changes_nothing(value: str) -> None:
    for name, reasons in keys_without_effect.PLUGIN_ARGUMENTS.items():
        for key, reason in reasons.items():
            given = with_arguments(name, f"{key}: {value}", "allocate", "")
            assert given.warnings == (f"tiers[0].plugins[0].arguments.{key} ({name}): has no effect: {reason}",)
            assert replace(given, warnings=()) == with_arguments(name, "", "allocate", "")
    for name, reasons in keys_without_effect.ACTION_ARGUMENTS.items():
        for key, reason in reasons.items():
            given = with_arguments("gang", "", name, f"{key}: {value}")
            assert given.warnings == (f"configurations[0].arguments.{key} ({name}): has no effect: {reason}",)
            assert replace(given, warnings=()) == with_arguments("gang", "", name, "")


@pytest.mark.parametrize("switch", keys_without_effect.SWITCHES)
def test_a_switch_without_effect_is_named_in_a_warning(switch: str) -> None:
    text = f"actions: allocate\ntiers:\n- plugins:\n  - name: drf\n  - name: gang\n    {switch}: false"
    reason = keys_without_effect.SWITCHES[switch]
    assert parse(text, all_policies()).warnings == (f"tiers[0].plugins[1].{switch} (gang): has no effect: {reason}",)


def config_map(**data: str) -> str:
    """A manifest as users of Volcano have it."""
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "volcano-scheduler-configmap"}}
    return yaml.safe_dump(manifest | {"data": data})


def test_a_config_map_with_one_key_is_read_as_the_content_of_the_key() -> None:
    assert parse(config_map(**{"volcano-scheduler.conf": VOLCANO}), all_policies()) == parse(VOLCANO, all_policies())


@pytest.mark.parametrize(
    ("data", "found"), [({}, "no key in data"), ({"a": "x", "b": "y"}, '2 keys in data ("a", "b")')]
)
def test_a_config_map_with_another_number_of_keys_is_rejected(data: dict[str, str], found: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(config_map(**data), all_policies())
    expected = f"must be a configuration, is a ConfigMap with {found}: write the value of one key to a file"
    assert str(error.value) == expected

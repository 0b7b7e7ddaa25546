"""The harness of Volcano's suites: how it reads reports, what it says without Volcano's source."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hack.gobuild import BuildError
from tests.volcano_e2e import examples
from tests.volcano_e2e.__main__ import SUITES, _exactly, main
from tests.volcano_e2e.building import _ALONE, _WORDS, Programs
from tests.volcano_e2e.commands import annotations, behaviour
from tests.volcano_e2e.examples import Example
from tests.volcano_e2e.exceptions import EXCEPTIONS, RACE
from tests.volcano_e2e.report import Result, Spec, specs, with_repeated
from tests.volcano_e2e.world import WORKERS, candidates


def entry(text: str, state: str, message: str = "", kind: str = "It") -> dict[str, Any]:
    """A spec as ginkgo reports it."""
    failure = {"Failure": {"Message": message}} if message else {}
    return {
        "LeafNodeType": kind,
        "ContainerHierarchyTexts": ["Suite"],
        "LeafNodeText": text,
        "State": state,
        "RunTime": 2_000_000_000,
        **failure,
    }


def test_a_report_has_specs_that_passed_failed_or_were_skipped_by_themselves(tmp_path: Path) -> None:
    entries = [
        entry("a", "passed"),
        entry("b", "failed", "Expected\n x\nto contain substring\n y"),
        entry("c", "timedout", "timed out"),
        entry("d", "skipped", "needs a GPU"),
        entry("not selected", "skipped"),
        entry("", "passed", kind="BeforeSuite"),
    ]
    (tmp_path / "r.json").write_text(json.dumps([{"SpecReports": entries}]))
    found = specs(tmp_path / "r.json")
    assert [(spec.name, spec.state) for spec in found] == [
        ("Suite a", "passed"),
        ("Suite b", "failed"),
        ("Suite c", "failed"),
        ("Suite d", "skipped"),
    ]
    assert [spec.name for spec in found if spec.differs_in_words] == ["Suite b"]
    result = Result("admission", tuple(found), frozenset({"Suite b"}))
    assert (result.passed, [spec.name for spec in result.unexplained]) == (2, ["Suite c"])
    assert result.lines() == [
        "admission: 2 passed (1 refused in other words), 1 failed, 1 skipped",
        "  refused in other words: Suite b",
        "  failed: Suite c: NOT EXPLAINED: timed out",
        "  skipped: Suite d: needs a GPU",
    ]


def test_what_failed_beside_other_specs_counts_as_it_ends_alone() -> None:
    found = [Spec("a", "passed"), Spec("b", "failed", "the queue exists"), Spec("c", "failed", "timed out")]
    assert with_repeated(found, [Spec("b", "passed"), Spec("c", "failed", "no pod")]) == [
        Spec("a", "passed"),
        Spec("b", "passed"),
        Spec("c", "failed", "no pod"),
    ]


def test_what_failed_for_a_reason_that_stays_is_not_repeated() -> None:
    race = next(part for part, reason in EXCEPTIONS["jobp"].items() if reason.startswith(RACE))
    stays = next(part for part, reason in EXCEPTIONS["jobseq"].items() if not reason.startswith(RACE))
    jobp = Result("jobp", (Spec(race, "failed"), Spec("a", "failed"), Spec("b", "passed")))
    assert [spec.name for spec in jobp.worth_repeating] == [race, "a"]
    assert Result("jobseq", (Spec(stays, "failed"),)).worth_repeating == []


def test_only_comparisons_of_words_are_replaced() -> None:
    line = 'gomega.Expect(err.Error()).To(gomega.ContainSubstring("must be >= 1"))'
    assert _WORDS.sub("X", line) == "gomega.Expect(err.Error()).To(X)"
    assert _WORDS.sub("X", "gomega.Expect(err).To(gomega.HaveOccurred())").endswith("HaveOccurred())")


def test_the_name_of_a_spec_is_matched_as_it_is() -> None:
    name = "Case 1.2: a (b) [c]"
    assert re.search(_exactly(name), f"Suite {name}")
    assert not re.search(_exactly(name), name.replace(".", "x"))


def test_exceptions_are_of_known_suites_and_have_reasons() -> None:
    assert set(EXCEPTIONS) <= set(SUITES)
    assert all(len(reason) > 20 for reasons in EXCEPTIONS.values() for reason in reasons.values())


@pytest.mark.parametrize("source", ["", "/nonexistent"])
def test_without_the_source_of_volcano_it_says_why_it_is_skipped(
    source: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VOLCANO_SOURCE", source)
    monkeypatch.delenv("CI", raising=False)
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("volcano-e2e: skipped: VOLCANO_SOURCE")


def test_a_source_that_is_given_and_missing_is_a_failure_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("VOLCANO_SOURCE", "/nonexistent")
    assert main([]) == 1


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"image": "nginx:1.29"}, ("forever", 0)),
        ({"image": "busybox"}, ("", 0)),
        ({"command": ["/bin/sh"], "args": ["-c", "sleep 10s && exit 3"]}, ("10s", 3)),
        ({"command": ["/bin/sh"], "args": ["-c", "sleep 10s && xyz"]}, ("10s", 127)),
        ({"command": ["/bin/sh", "-c", "sleep 5"]}, ("5s", 0)),
        ({"command": ["sh", "-c", "sh fake.sh"]}, ("100ms", 127)),
        ({"command": ["sh", "-c", "mkdir -p /var/run/sshd; /usr/sbin/sshd -D;"]}, ("forever", 0)),
        ({"command": ["sh", "-c", "ulimit -n 65536; ray start --head --block"]}, ("forever", 0)),
        ({"command": ["/bin/sh", "-c", "trap exit TERM; while true; do sleep 1; done"]}, ("forever", 0)),
        ({"command": ["sh", "-c", "python3 mnist.py --epochs=1"]}, ("", 0)),
    ],
    ids=str,
)
def test_a_command_of_the_suites_has_a_duration_and_an_exit_code(
    container: dict[str, Any], expected: tuple[str, int]
) -> None:
    assert behaviour(container) == expected


def test_a_pod_is_annotated_with_what_its_containers_do() -> None:
    containers = [{"name": "a", "command": ["sh", "-c", "sleep 3 && exit 1"]}, {"name": "b", "image": "busybox"}]
    described = annotations({"containers": containers})
    assert described == {"sim.volcanopy.io/duration.a": "3s", "sim.volcanopy.io/exit-code.a": "1"}
    sticky = {"name": "c", "command": ["sh", "-c", "trap '' TERM; sleep 999999"]}
    assert annotations({"containers": [sticky], "terminationGracePeriodSeconds": 60}) == {
        "sim.volcanopy.io/stop-delay": "60s",
        "sim.volcanopy.io/duration.c": "999999s",
    }


def test_kube_scheduler_is_played_with_the_nodes_that_a_pod_names() -> None:
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["b", "c"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    assert candidates({"affinity": affinity}) == ("b", "c")
    assert candidates({"affinity": {"podAntiAffinity": {}}}) == WORKERS


def test_the_examples_are_files_and_complete_objects_of_the_guides(tmp_path: Path) -> None:
    (tmp_path / "example" / "a").mkdir(parents=True)
    (tmp_path / "example" / "a" / "job.yaml").write_text("kind: Job\n---\nkind: Queue\n")
    guide = tmp_path / "docs" / "user-guide" / "how_to_do.md"
    guide.parent.mkdir(parents=True)
    complete = "  ```yaml\n  apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n  ```\n"
    guide.write_text(f"# How\n```shell\nkubectl get q\n```\n{complete}```yaml\nspec:\n  kind: Part\n```\n")
    found = examples.examples(tmp_path)
    assert [(each.name, each.place) for each in found] == [
        ("example/a/job.yaml", "example/a"),
        ("docs/user-guide/how_to_do.md block 1", "docs/user-guide/how_to_do.md"),
    ]
    assert [[body["kind"] for body in each.objects] for each in found] == [["Job", "Queue"], ["Pod"]]


def test_an_example_is_explained_if_it_runs_or_says_why_not() -> None:
    def example(name: str, outcome: str, reason: str = "") -> Example:
        return Example(name, "example", outcome=outcome, reason=reason)

    assert example("a.yaml", "runs").explained
    assert example("a.yaml", "waits", "no GPU").explained
    assert not example("a.yaml", "waits").explained
    assert not example("a.yaml", "").explained
    assert not example("a.yaml", "refused", "spec.queue: no such queue").explained
    refused = example("a-webhook-deny.yaml", "refused", "spec.minAvailable: too large")
    assert refused.explained
    assert refused.line() == (
        "  a-webhook-deny.yaml: refused: spec.minAvailable: too large (Volcano's example of a job that is rejected)"
    )


def test_drivers_of_devices_register_with_no_kubelet_in_the_variant_of_their_suite(tmp_path: Path) -> None:
    suite = tmp_path / "test" / "e2e" / "dra"
    suite.mkdir(parents=True)
    (suite / "quota_test.go").write_text("driver := drautils.NewDriver(f, nodes, resources)\n")
    (suite / "test.go").write_text("package dra\n\ndriver := drautils.NewDriver(f, nodes, resources)\n")
    (suite / "main_test.go").write_text("package dra\n")
    (suite / "builder.go").write_text("\t\ttestContainerEnv(ctx, f, pod, container.Name, false, env...)\n")
    changed = Programs(tmp_path, tmp_path / "built")._without_kubelet("dra")
    call = "driver := alone(drautils.NewDriver)(f, nodes, resources)\n"
    assert changed == {
        suite / "quota_test.go": call,
        suite / "test.go": f"package dra\n\n{call}{_ALONE}",
        suite / "builder.go": "\t\t_ = container\n",
    }
    with pytest.raises(BuildError, match="starts drivers in another way"):
        Programs(tmp_path / "other", tmp_path / "built")._without_kubelet("dra")

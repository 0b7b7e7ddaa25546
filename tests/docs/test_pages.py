"""The blocks of every document run and print what the document shows."""

from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.fixtures import kubectl_program
from tests.docs.page_runner import needs_cluster, reader, uses_kubectl
from tests.docs.pages import ROOT, Block, blocks, commands, like, pages
from tests.nightly import nightly

__all__ = ["kubectl_program"]

ELSEWHERE: dict[str, str] = {
    "make demo     # installs": "make test runs these tests, and tests/local/process/test_demo.py runs what make demo runs",
    "kubectl get podgroups.scheduling.volcano.sh\n": "needs a PodGroup of a client; tests/cli/explain/test_pod_groups.py",
    "from volcanopy import Executor": "tests/cli/test_functions.py runs it on process nodes",
    "from distributed import Client": "tests/cli/test_backends.py runs it on process nodes",
    "import submitit": "tests/cli/test_backends.py runs it on process nodes",
    "spark-submit --master": "tests/clients/test_spark.py runs it with these settings; needs Spark (`make spark-client`)",
}
"""Blocks that are not run here, by their beginning, with the reason."""

PAGES_ELSEWHERE: dict[str, str] = {
    "docs/install.md": "tests/charts/test_install.py: helm, and a real API server, for install, upgrade and uninstall",
}
"""Pages that other tests run, with what they need."""

SLOW: dict[str, str] = {
    "examples/README.md": "runs every example",
    "README.md": "runs a session with jobs that wait for each other",
    "docs/python.md": "each program starts Python and runs a job",
    "docs/tutorial.md": "runs jobs on a cluster, one after the other",
    "docs/writing-a-plugin.md": "checks four plugins over random cluster states",
    "docs/run-times.md": "waits for run times to be learnt, and for starts to be estimated",
}
"""Pages that take longer than others, and why."""

NIGHTLY = {
    "examples/README.md": "tests/e2e/test_examples.py runs the examples by day",
    "docs/run-times.md": "tests/services/test_run_times.py and test_start_estimates.py check by day what it shows",
}
"""Pages of the night, with the tests of the day."""

LANGUAGES = {"yaml", "console", "sh", "python", "text", "world", "mermaid"}


def _runs(block: Block) -> bool:
    return not any(block.text.startswith(beginning) for beginning in ELSEWHERE)


def _cases() -> list[Any]:
    """Every page, by a name that does not depend on where the repository is."""
    cases = []
    for page in [*pages(), ROOT / "packages/testing/README.md"]:
        path = str(page.relative_to(ROOT))
        marks = [pytest.mark.slow(SLOW[path])] if path in SLOW else []
        marks += [nightly] if path in NIGHTLY else []
        cases.append(pytest.param(page, id=path, marks=marks))
    return cases


@pytest.mark.parametrize("page", _cases())
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if (elsewhere := PAGES_ELSEWHERE.get(str(page.relative_to(ROOT)))) is not None:
        assert (ROOT / elsewhere.partition(":")[0]).is_file()
        pytest.skip(elsewhere)
    listed = [block for block in blocks(page) if _runs(block)]
    kubectl: Path | None = request.getfixturevalue("kubectl_program") if uses_kubectl(listed) else None
    with reader(tmp_path, kubectl) as page_reader:
        if needs_cluster(listed):
            page_reader.start("volcanopy local up --simulate 3")
        for block in listed:
            page_reader.follow(block, remedies=page == ROOT / "README.md")


def test_every_block_has_a_known_language() -> None:
    unknown = [str(block) for page in pages() for block in blocks(page) if block.language not in LANGUAGES]
    assert unknown == []


def test_every_excluded_block_exists() -> None:
    texts = [block.text for page in pages() for block in blocks(page)]
    assert [beginning for beginning in ELSEWHERE if not any(text.startswith(beginning) for text in texts)] == []


def test_a_console_contains_commands_and_output() -> None:
    assert commands("$ one \\\n> two\nprinted\n\nmore\n$ three\n") == [
        ("one \\\ntwo", "printed\n\nmore\n"),
        ("three", ""),
    ]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("NAME  AGE\na  3s\n", "NAME    AGE\na       12m\n", True),
        ("NAME  AGE\na  3s\n", "NAME    AGE\nb       12m\n", False),
        ("first\n...\nlast\n", "first\nsecond\nthird\nlast\n", True),
        ("first\n...\n", "second\n", False),
        ("a took 1.5s\n", "a took 300ms\n", True),
    ],
)
def test_ages_and_times_are_not_compared(shown: str, printed: str, same: bool) -> None:
    assert like(shown, printed) is same

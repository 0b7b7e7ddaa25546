"""The page about jobs agrees with the transition table, and its manifests are valid."""

import re

import yaml

from tests.jobcontroller.writing import PAGE, page
from volcanopy.admission.context import no_plugins
from volcanopy.admission.jobs import job_problems
from volcanopy.api.lifecycle import Command


def test_the_diagram_is_generated_from_the_table() -> None:
    assert PAGE.read_text() == page(PAGE.read_text()), "run `make golden`"


def test_the_manifests_of_the_page_are_valid() -> None:
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)]
    jobs = {block["metadata"]["name"]: block for block in blocks if block["kind"] == "BatchJob"}
    commands = [block for block in blocks if block["kind"] == "Command"]
    assert (len(jobs), len(commands)) == (4, 1)
    assert [problem for job in jobs.values() for problem in job_problems(job, no_plugins)] == []
    assert Command.read(commands[0], unknown="forbid").target.name in jobs

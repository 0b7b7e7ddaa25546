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
    job, command = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL))
    assert list(job_problems(job, no_plugins)) == []
    assert Command.read(command, unknown="forbid").target.name == job["metadata"]["name"]

"""Validation of the alternatives of a job: each is checked as the job that results from it."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from volcanopy.admission.request import at, list_at
from volcanopy.admission.response import as_warning
from volcanopy.api.alternatives import merged
from volcanopy.api.batch import BatchJob, BatchJobSpec
from volcanopy.api.builtin.template_types import template_problems
from volcanopy.api.job_alternatives import spec_with_alternative
from volcanopy.api.model import Json, Problem, duplicate, not_found, quoted

_IN_TASK = re.compile(r"spec\.tasks\[(\d+)\]\.template")


def alternative_problems(job: BatchJob, check: Callable[[BatchJob], Iterable[Problem]]) -> Iterator[Problem]:
    """Yield the problems of alternatives: of their own, and those that ``check`` finds in the jobs that result from them."""
    spec = job.spec
    if not spec.alternatives:
        return
    tasks_of_job, names = {task.name: task for task in spec.tasks}, set[str]()
    complete = True
    for number, alternative in enumerate(spec.alternatives):
        path = f"spec.alternatives[{number}]"
        if alternative.name in names:
            yield duplicate(f"{path}.name", alternative.name)
        names.add(alternative.name)
        tasks = [task.name for task in alternative.tasks]
        for position, task in enumerate(alternative.tasks):
            task_path = f"{path}.tasks[{position}]"
            if task.name in tasks[:position]:
                yield duplicate(f"{task_path}.name", task.name)
            if task.name not in tasks_of_job:
                complete = False
                fix = f"tasks of the job are {quoted(sorted(tasks_of_job))}"
                yield not_found(f"{task_path}.name", "task", task.name, fix)
                continue
            result = merged(tasks_of_job[task.name].template, task.template)
            problems = list(template_problems(result, f"{task_path}.template"))
            complete = complete and not problems
            yield from problems
    if not complete:
        return
    before = set(check(job.model_copy(update={"spec": spec.model_copy(update={"alternatives": []})})))
    for number, alternative in enumerate(spec.alternatives):
        result = job.model_copy(update={"spec": spec_with_alternative(spec, alternative.name)})
        for problem in check(result):
            if problem not in before:
                yield moved(problem, spec, number)


def with_any_alternative(
    spec: BatchJobSpec, findings: Callable[[BatchJobSpec], Iterable[Problem]]
) -> Iterator[Problem]:
    """Yield the findings of a job: problems if it has them with each of its alternatives, else warnings."""
    if not spec.alternatives:
        yield from findings(spec)
        return
    results = [list(findings(spec_with_alternative(spec, alternative.name))) for alternative in spec.alternatives]
    possible = any(all(problem.warning for problem in problems) for problems in results)
    for number, problems in enumerate(results):
        for problem in problems:
            yield as_warning(moved(problem, spec, number)) if possible else moved(problem, spec, number)


def merged_templates(manifest: Json | None) -> Iterator[tuple[str, Any]]:
    """Yield the path and the resulting template of each task that an alternative of a job, as JSON, changes."""
    templates = {str(at(task, "name")): at(task, "template") for task in list_at(manifest, "spec", "tasks")}
    for number, alternative in enumerate(list_at(manifest, "spec", "alternatives")):
        for position, task in enumerate(list_at(alternative, "tasks")):
            path = f"spec.alternatives[{number}].tasks[{position}].template"
            if (name := str(at(task, "name"))) in templates:
                yield path, merged(templates[name], at(task, "template") or {})


def moved(problem: Problem, spec: BatchJobSpec, number: int) -> Problem:
    """Return a problem of the job that results from an alternative, at the path in the alternative that it comes from."""
    match, alternative = _IN_TASK.match(problem.path), spec.alternatives[number]
    names = [task.name for task in alternative.tasks]
    if match and int(match[1]) < len(spec.tasks) and (name := spec.tasks[int(match[1])].name) in names:
        prefix = f"spec.alternatives[{number}].tasks[{names.index(name)}].template"
        return replace(problem, path=f"{prefix}{problem.path[match.end() :]}")
    prefix = "" if problem.path.startswith("spec.alternatives") else f'with alternative "{alternative.name}": '
    return replace(problem, message=f"{prefix}{problem.message}")

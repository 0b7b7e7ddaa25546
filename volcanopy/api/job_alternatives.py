"""Jobs with one of their alternatives merged into them."""

from volcanopy.api.alternatives import merged
from volcanopy.api.batch import BatchJob, BatchJobSpec


def spec_with_alternative(spec: BatchJobSpec, name: str) -> BatchJobSpec:
    """Return the spec with an alternative merged into its tasks and run time, and without alternatives.

    It is returned unchanged if it has no alternative of this name.
    """
    alternative = next((candidate for candidate in spec.alternatives if candidate.name == name), None)
    if alternative is None:
        return spec
    changes = {task.name: task.template for task in alternative.tasks}
    tasks = [
        task.model_copy(update={"template": merged(task.template, changes[task.name])})
        if changes.get(task.name)
        else task
        for task in spec.tasks
    ]
    estimate = alternative.running_estimate or spec.running_estimate
    return spec.model_copy(update={"tasks": tasks, "running_estimate": estimate, "alternatives": []})


def with_alternative(job: BatchJob, name: str) -> BatchJob:
    """Return the job with :func:`spec_with_alternative`."""
    return job.model_copy(update={"spec": spec_with_alternative(job.spec, name)})

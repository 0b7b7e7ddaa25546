"""What admission asks of the job plugins, without knowing them: whoever puts the parts together hands in the check."""

from collections.abc import Iterable
from typing import Protocol

from volcanopy.api.batch import BatchJob
from volcanopy.api.model import Problem


class PluginCheck(Protocol):
    """The problems of a job's ``spec.plugins``: unknown plugins, wrong arguments."""

    def __call__(self, job: BatchJob) -> Iterable[Problem]:
        """Each with its path."""


def no_plugins(job: BatchJob) -> Iterable[Problem]:
    """A check for callers without plugins: any plugin named is unknown."""
    return [Problem(f"spec.plugins.{name}", "there are no job plugins here") for name in sorted(job.spec.plugins)]

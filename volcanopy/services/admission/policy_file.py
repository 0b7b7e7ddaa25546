"""The admission configuration file, read again when it changes; an invalid one is ignored."""

from collections.abc import Sequence
from pathlib import Path

from volcanopy.admission.context import AdmissionPolicy, parse
from volcanopy.api import names
from volcanopy.services.process.watched_file import RereadFile


class PolicyFile(RereadFile[AdmissionPolicy]):
    """The admission policy; ``current`` is the last valid one."""

    def __init__(self, path: Path | None, fixed: AdmissionPolicy | None = None) -> None:
        """Read the file; raises ConfigError. Without a path ``fixed`` is always in force."""
        super().__init__(path, "admission configuration", parse, lambda: fixed or AdmissionPolicy())


def with_schedulers(policy: AdmissionPolicy, scheduler_names: Sequence[str]) -> AdmissionPolicy:
    """Return the policy for the schedulers of all served APIs."""
    others = [name for name in scheduler_names if name not in {names.SCHEDULER, *policy.scheduler_names}]
    known = [*policy.scheduler_names, *others]
    return policy if known == policy.scheduler_names else policy.model_copy(update={"scheduler_names": known})

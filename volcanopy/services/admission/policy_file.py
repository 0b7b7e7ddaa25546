"""The admission configuration file, read again when it changes; an invalid one is ignored."""

from collections.abc import Sequence
from pathlib import Path

from volcanopy.admission.context import AdmissionPolicy, parse
from volcanopy.api.bindings import VOLCANOPY, Binding
from volcanopy.services.process.watched_file import RereadFile


class PolicyFile(RereadFile[AdmissionPolicy]):
    """The admission policy; ``current`` is the last valid one."""

    def __init__(self, path: Path | None, fixed: AdmissionPolicy | None = None) -> None:
        """Read the file; raises ConfigError. Without a path ``fixed`` is always in force."""
        super().__init__(path, "admission configuration", parse, lambda: fixed or AdmissionPolicy())


def with_schedulers(policy: AdmissionPolicy, bindings: Sequence[Binding]) -> AdmissionPolicy:
    """Return the policy for the schedulers of all served APIs."""
    others = [binding.scheduler_name for binding in bindings if binding is not VOLCANOPY]
    known = [*policy.scheduler_names, *(name for name in others if name not in policy.scheduler_names)]
    return policy if known == policy.scheduler_names else policy.model_copy(update={"scheduler_names": known})

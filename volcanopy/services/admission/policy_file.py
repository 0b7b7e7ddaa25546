"""The admission configuration file, read again when it changes; a broken one changes nothing."""

from pathlib import Path

from volcanopy.admission.policy import AdmissionPolicy, PolicyError, parse
from volcanopy.services.process.watched_file import RereadFile


class PolicyFile(RereadFile[AdmissionPolicy]):
    """The policy in force: ``current`` is the last good one."""

    def __init__(self, path: Path | None, fixed: AdmissionPolicy | None = None) -> None:
        """Reads the file; raises PolicyError, naming the key and the fix. Without a path ``fixed`` is in force for ever."""
        super().__init__(path, "admission configuration", parse, PolicyError, lambda: fixed or AdmissionPolicy())

"""The admission configuration file, read again when it changes; an invalid one is ignored."""

from pathlib import Path

from volcanopy.admission.context import AdmissionPolicy, parse
from volcanopy.services.process.watched_file import RereadFile


class PolicyFile(RereadFile[AdmissionPolicy]):
    """The admission policy; ``current`` is the last valid one."""

    def __init__(self, path: Path | None, fixed: AdmissionPolicy | None = None) -> None:
        """Read the file; raises ConfigError. Without a path ``fixed`` is always in force."""
        super().__init__(path, "admission configuration", parse, lambda: fixed or AdmissionPolicy())

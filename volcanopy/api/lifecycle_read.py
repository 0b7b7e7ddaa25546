"""Read models of :mod:`volcanopy.api.lifecycle`, written by ``make golden`` from the full models."""

from volcanopy.api.read_model import ReadModel


class LifecyclePolicy(ReadModel, frozen=True, kw_only=True, gc=False):
    action: str = ""
    event: str = ""
    events: tuple[str, ...] = ()
    exit_code: int | None = None
    timeout: str = ""

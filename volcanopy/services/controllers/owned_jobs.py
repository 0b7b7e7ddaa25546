"""The jobs that flows and cron jobs have made, by the uid of their owner: read once, and what we write taken over at once."""

from collections import OrderedDict
from collections.abc import Callable, Iterable

from volcanopy.api.batch import BatchJob
from volcanopy.api.model import InvalidObjectError
from volcanopy.kube.client.kinds import Json
from volcanopy.services.controllers.job_cache import REMEMBERED_DEATHS, uid_of

Wake = Callable[[str], None]
"""Called with the uid of an owner one of whose jobs has changed."""


class OwnedJobs:
    """Jobs by owner. ``owners`` are the kinds of owner that are looked at."""

    def __init__(self, owners: Iterable[str], wake: Wake) -> None:
        self._owners = frozenset(owners)
        self._wake = wake
        self._by_owner: dict[str, dict[str, BatchJob]] = {}
        self._versions: dict[str, int] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()

    def of(self, owner: str) -> dict[str, BatchJob]:
        """The jobs of an owner, by name."""
        return self._by_owner.get(owner, {})

    def seen(self, event: str | None, found: Json) -> None:
        """A job was listed, added, changed or deleted."""
        owner = self._owner(found)
        if not owner:
            return
        name, uid = found["metadata"]["name"], uid_of(found)
        jobs = self._by_owner.setdefault(owner, {})
        held = jobs.get(name)
        if event == "DELETED":
            self._versions.pop(uid, None)
            self._gone[uid] = None
            if len(self._gone) > REMEMBERED_DEATHS:
                self._gone.popitem(last=False)
            if held is not None and held.metadata.uid == uid:
                del jobs[name]
            if not jobs:
                self._by_owner.pop(owner)
        else:
            version = int(found["metadata"].get("resourceVersion") or 0)
            if uid in self._gone or version <= self._versions.get(uid, 0):
                return
            try:
                jobs[name] = BatchJob.read(found)
            except InvalidObjectError:
                # Its own controller tells people about it; for its owner it is a job that does not move.
                return
            self._versions[uid] = version
        self._wake(owner)

    def _owner(self, found: Json) -> str:
        for one in found["metadata"].get("ownerReferences") or ():
            if one.get("controller") and one.get("kind") in self._owners:
                return str(one.get("uid", ""))
        return ""

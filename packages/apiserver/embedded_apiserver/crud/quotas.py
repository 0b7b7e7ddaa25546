"""ResourceQuotas: the sums that the objects of a namespace may not exceed.

A new object with which a sum would exceed its hard limit is rejected. A pod that has ended counts no more. Sums follow every
change and are written to `status.used`. Updates that enlarge an object are not checked; quotas with a `scopeSelector` match none.
"""

from embedded_apiserver import quantities
from embedded_apiserver.context import Context
from embedded_apiserver.crud.builtin_admission import CLAIMS, PODS, Units, sum_of
from embedded_apiserver.kinds.kinds import Kind
from embedded_apiserver.status_errors import forbidden
from embedded_apiserver.store.object_store import Body, Bucket, Event, StoredObject

QUOTAS = "resourcequotas"
_SHORT = {"cpu", "memory", "ephemeral-storage"}


class Quotas:
    """The sums of all quotas. One per server."""

    def __init__(self, ctx: Context) -> None:
        self._store = ctx.store
        self._quotas = ctx.store.bucket(QUOTAS)
        self._used: dict[str, Units] = {}
        ctx.store.listeners.append(self._changed)

    def check(self, namespace: str, kind: Kind, body: Body) -> None:
        """Raise the 403 of a new object with which a sum exceeds a quota of its namespace."""
        for entry in self._quotas.entries(namespace) if namespace in self._quotas.objects else ():
            name, quota, hard = body["metadata"].get("name", ""), entry.body, _hard(entry.body)
            if kind.bucket == PODS and _in_scope(quota, body):
                missing = [
                    resource for resource in sorted(hard) if _is_required(resource) and not _given(body, resource)
                ]
                if missing:
                    raise forbidden(PODS, "", name, f"failed quota: {entry.name}: must specify {','.join(missing)}")
            used, added = self._used_of(entry), usage_of(kind.bucket, body, quota)
            over = [key for key in sorted(hard) if added.get(key) and used[key] + added[key] > _units(key, hard[key])]
            if over:
                requested = ",".join(f"{key}={_text(key, added[key])}" for key in over)
                before = ",".join(f"{key}={_text(key, used[key])}" for key in over)
                limits = ",".join(f"{key}={_text(key, _units(key, hard[key]))}" for key in over)
                text = f"exceeded quota: {entry.name}, requested: {requested}, used: {before}, limited: {limits}"
                raise forbidden(kind.plural, kind.group, name, text)

    def _changed(self, bucket: Bucket, event: Event) -> None:
        namespace = event.entry.namespace
        if bucket is self._quotas:
            if event.type == "DELETED":
                self._used.pop(event.entry.uid, None)
            elif event.previous is None or event.previous.body.get("spec") != event.entry.body.get("spec"):
                self._used.pop(event.entry.uid, None)
                self._write(event.entry)
            return
        for entry in self._quotas.entries(namespace) if namespace in self._quotas.objects else ():
            if entry.uid in self._used:
                used, before = self._used[entry.uid], dict(self._used[entry.uid])
                for version, sign in ((event.previous, -1), (None if event.type == "DELETED" else event.entry, 1)):
                    usage = usage_of(bucket.name, version.body, entry.body) if version is not None else {}
                    for key in used.keys() & usage.keys():
                        used[key] += sign * usage[key]
                if used == before:
                    continue
            self._write(entry)

    def _used_of(self, entry: StoredObject) -> Units:
        """The sums of a quota for its hard limits."""
        used = self._used.get(entry.uid)
        if used is None:
            used = self._used[entry.uid] = dict.fromkeys(_hard(entry.body), 0)
            for bucket in {_bucket_of(name) for name in used}:
                for each in self._store.bucket(bucket).entries(entry.namespace):
                    for name, units in usage_of(bucket, each.body, entry.body).items():
                        if name in used:
                            used[name] += units
        return used

    def _write(self, entry: StoredObject) -> None:
        used = {name: _text(name, units) for name, units in self._used_of(entry).items()}
        body = {
            **entry.body,
            "metadata": dict(entry.body["metadata"]),
            "status": {"hard": _hard(entry.body), "used": used},
        }
        if body["status"] != entry.body.get("status"):
            self._store.put(self._quotas, body)


def _hard(quota: Body) -> dict[str, str]:
    return dict((quota.get("spec") or {}).get("hard") or {})


def usage_of(bucket: str, body: Body, quota: Body) -> Units:
    """What an object adds to the sums of a quota."""
    counts: Units = {f"count/{bucket}": 1}
    if "." not in bucket:
        counts[bucket] = 1
    if bucket == PODS:
        phase = (body.get("status") or {}).get("phase")
        if phase in {"Succeeded", "Failed"}:
            return {"count/pods": 1}
        if not _in_scope(quota, body):
            return {}
        return counts | _pod_units(body)
    if bucket == CLAIMS:
        requests = quantities.amounts((body["spec"].get("resources") or {}).get("requests") or {})
        storage = requests.get("storage", 0)
        counts["requests.storage"] = storage
        if name := body["spec"].get("storageClassName"):
            prefix = f"{name}.storageclass.storage.k8s.io"
            counts |= {f"{prefix}/requests.storage": storage, f"{prefix}/persistentvolumeclaims": 1}
    return counts


def _pod_units(pod: Body) -> Units:
    spec = pod["spec"]
    units: Units = {}
    for key in ("requests", "limits"):
        total = sum_of((container.get("resources") or {}).get(key) or {} for container in spec["containers"])
        for container in spec.get("initContainers") or ():
            for name, amount in quantities.amounts((container.get("resources") or {}).get(key) or {}).items():
                total[name] = max(total.get(name, 0), amount)
        units |= {f"{key}.{name}": amount for name, amount in total.items()}
        if key == "requests":
            units |= {name: amount for name, amount in total.items() if name in _SHORT}
    return units


def _is_required(name: str) -> bool:
    """Whether every container of a namespace with this quota must have the amount."""
    return name.rpartition(".")[2] in {"cpu", "memory"} and name.partition(".")[0] in {
        "requests",
        "limits",
        "cpu",
        "memory",
    }


def _given(pod: Body, name: str) -> bool:
    section, _, resource = name.rpartition(".")
    return all(
        resource in ((container.get("resources") or {}).get(section or "requests") or {})
        for container in pod["spec"]["containers"]
    )


def _in_scope(quota: Body, pod: Body) -> bool:
    spec = quota.get("spec") or {}
    if spec.get("scopeSelector"):
        return False
    resources = [container.get("resources") or {} for container in pod["spec"]["containers"]]
    best_effort = not any(each.get("requests") or each.get("limits") for each in resources)
    terminating = pod["spec"].get("activeDeadlineSeconds") is not None
    matches = {
        "BestEffort": best_effort,
        "NotBestEffort": not best_effort,
        "Terminating": terminating,
        "NotTerminating": not terminating,
    }
    return all(matches.get(scope, False) for scope in spec.get("scopes") or ())


def _bucket_of(name: str) -> str:
    if name.startswith("count/"):
        return name.removeprefix("count/")
    if name.endswith(("requests.storage", CLAIMS)):
        return CLAIMS
    return PODS if _is_pod_amount(name) else name


def _is_pod_amount(name: str) -> bool:
    return name in {"pods", *_SHORT} or name.startswith(("requests.", "limits."))


def _units(name: str, text: str) -> int:
    return quantities.amount(name.rpartition(".")[2], text)


def _text(name: str, units: int) -> str:
    return quantities.text(name.rpartition(".")[2], units)

"""The kinds that volcanopy reads and writes, with whole objects as dicts; :meth:`Kind.of` gives them another type."""

import dataclasses
import functools
from typing import Any, TypeVar

import msgspec

from volcanopy.api import names
from volcanopy.api.bindings import BINDINGS, VOLCANOPY, Binding, binding_of
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import NotFound
from volcanopy.kube.client.kinds import Json, Kind


class ServedKind(msgspec.Struct):
    """A kind that is served: the plural in its path, its name, and whether its objects have namespaces."""

    name: str = ""
    kind: str = ""
    namespaced: bool = False


class _Resources(msgspec.Struct):
    resources: list[ServedKind] = []


async def served_kinds(client: Client, api_version: str) -> list[ServedKind]:
    """Return the kinds of an API version, none where it is not served. Raises KubeError, MsgspecError."""
    try:
        answer = await client.get_raw(f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}")
    except NotFound:
        return []
    resources = msgspec.json.decode(answer, type=_Resources).resources
    return [resource for resource in resources if "/" not in resource.name]


T = TypeVar("T")


def _kind(api_version: str, kind: str, plural: str, *, namespaced: bool = True) -> Kind[Json]:
    group, _, version = api_version.rpartition("/")
    return Kind(group, version, kind, plural, namespaced, dict)


def bound(kind: Kind[T], binding: Binding) -> Kind[T]:
    """Return a kind of volcanopy under the names of an API; other kinds are returned unchanged."""
    return kind if binding is VOLCANOPY else _bound(kind, binding)


def of_object(kind: Kind[T], api_version: str) -> Kind[T]:
    """Return a kind of volcanopy in the API that an object has its group from."""
    return bound(kind, binding_of(api_version))


def of_other_apis(kind: Kind[T]) -> tuple[Kind[T], ...]:
    """Return a kind of volcanopy under the names of each other API."""
    return tuple(bound(kind, binding) for binding in BINDINGS if binding is not VOLCANOPY)


def is_of_other_api(manifest: Json) -> bool:
    """Whether an object is of another API than volcanopy's."""
    return binding_of(str(manifest["apiVersion"])) is not VOLCANOPY


def is_of(kind: Kind[Any], manifest: Json) -> bool:
    """Whether an object is of a kind, in any version; that it has no group is no difference."""
    group = manifest.get("apiVersion", kind.api_version).rpartition("/")[0]
    return manifest.get("kind") == kind.kind and group == kind.group


@functools.lru_cache(256)
def _bound(kind: Kind[Any], binding: Binding) -> Kind[Any]:
    return dataclasses.replace(
        kind,
        group=binding.group(kind.group),
        kind=binding.kind(kind.kind),
        plural=binding.plural(kind.plural),
        separate_status=kind.kind not in binding.status_in_object,
    )


JOBS = _kind(names.BATCH_V1ALPHA1, "BatchJob", "batchjobs")
CRON_JOBS = _kind(names.BATCH_V1ALPHA1, "CronBatchJob", "cronbatchjobs")
JOB_HISTORIES = _kind(names.BATCH_V1ALPHA1, "JobHistory", "jobhistories")
FLOWS = _kind(names.FLOW_V1ALPHA1, "JobFlow", "jobflows")
TEMPLATES = _kind(names.FLOW_V1ALPHA1, "JobTemplate", "jobtemplates")
POD_GROUPS = _kind(names.SCHEDULING_V1BETA1, "PodGroup", "podgroups")
QUEUES = _kind(names.SCHEDULING_V1BETA1, "Queue", "queues", namespaced=False)
COMMANDS = _kind(names.BUS_V1ALPHA1, "Command", "commands")
HYPER_NODES = _kind(names.TOPOLOGY_V1ALPHA1, "HyperNode", "hypernodes", namespaced=False)
NUMA_TOPOLOGIES = _kind(names.NODEINFO_V1ALPHA1, "NumaTopology", "numatopologies", namespaced=False)

PODS = _kind("v1", "Pod", "pods")
NODES = _kind("v1", "Node", "nodes", namespaced=False)
NAMESPACES = _kind("v1", "Namespace", "namespaces", namespaced=False)
EVENTS = _kind("v1", "Event", "events")
CONFIG_MAPS = _kind("v1", "ConfigMap", "configmaps")
SECRETS = _kind("v1", "Secret", "secrets")
SERVICES = _kind("v1", "Service", "services")
RESOURCE_QUOTAS = _kind("v1", "ResourceQuota", "resourcequotas")
VOLUME_CLAIMS = _kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
VOLUMES = _kind("v1", "PersistentVolume", "persistentvolumes", namespaced=False)
NETWORK_POLICIES = _kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
DISRUPTION_BUDGETS = _kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
PRIORITY_CLASSES = _kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False)
LEASES = _kind("coordination.k8s.io/v1", "Lease", "leases")
STORAGE_CLASSES = _kind("storage.k8s.io/v1", "StorageClass", "storageclasses", namespaced=False)
CSI_NODES = _kind("storage.k8s.io/v1", "CSINode", "csinodes", namespaced=False)
CSI_DRIVERS = _kind("storage.k8s.io/v1", "CSIDriver", "csidrivers", namespaced=False)
CSI_CAPACITIES = _kind("storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities")
DEVICE_CLAIMS = _kind("resource.k8s.io/v1", "ResourceClaim", "resourceclaims")
RUNTIME_CLASSES = _kind("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", namespaced=False)
DEVICE_CLAIM_TEMPLATES = _kind("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates")
DEVICE_SLICES = _kind("resource.k8s.io/v1", "ResourceSlice", "resourceslices", namespaced=False)
DEVICE_CLASSES = _kind("resource.k8s.io/v1", "DeviceClass", "deviceclasses", namespaced=False)

"""API bindings: under which group, kinds, keys and scheduler name an API is served.

volcanopy serves its objects under its own groups (``batch.volcanopy.io``, kind BatchJob) and under those of Volcano
(``batch.volcano.sh``, kind Job). The models and the code are the same. This module alone decides what differs: code names
everything by :mod:`volcanopy.api.names`, and asks the binding of an object for the name that it has there.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from volcanopy.api import names

_DOMAIN = "volcanopy.io"

_VOLCANO_KEYS = frozenset(
    {
        *(
            names.TASK_SPEC,
            names.TASK_INDEX,
            names.TASK_PRIORITY,
            names.JOB_NAME,
            names.JOB_NAMESPACE,
            names.QUEUE_NAME,
        ),
        *(names.PARTITION_ID, names.JOB_VERSION, names.JOB_RETRY_COUNT, names.TEMPLATE_UID, names.NUMA_TOPOLOGY_POLICY),
        *(names.SCORING_TYPE, names.SCORING_WEIGHT, names.NODE_GROUP, names.NODE_GROUP_LIMITS),
        *(names.TASK_AFFINITY, names.TASK_ANTI_AFFINITY, names.TASK_ORDER),
        *(names.PREEMPTABLE, names.COOLDOWN_TIME, names.REVOCABLE_ZONE, names.JDB_MIN_AVAILABLE),
        *(names.JDB_MAX_UNAVAILABLE, names.CREATED_BY_FLOW, names.CREATED_BY_TEMPLATE, names.SCHEDULED_TIME),
        *(names.POD_QUEUE_NAME, names.POD_GROUP_NAME, names.GROUP_MIN_MEMBER, names.NETWORK_TOPOLOGY_MODE),
        *(names.NETWORK_TOPOLOGY_HIGHEST_TIER, names.SLA_WAITING_TIME, names.HIERARCHY, names.HIERARCHY_WEIGHTS),
        *(names.CLOSED_BY_PARENT, names.NETWORK_TOPOLOGY_SOURCE, names.QUEUE_ALLOCATION_GATE),
    }
)
"""The labels and annotations that Volcano has as well. The others exist under volcanopy's domain only."""


@dataclass(frozen=True)
class Binding:
    """The names of one API. Bindings are compared by identity."""

    name: str
    """The name of the API, as in ``--api``."""
    domain: str
    """The domain of its groups and keys."""
    scheduler_name: str
    """``spec.schedulerName`` of its pods."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Its names of kinds, by volcanopy's; the others are the same."""
    absent: frozenset[str] = frozenset()
    """volcanopy's kinds that it lacks."""
    status_in_object: frozenset[str] = frozenset()
    """The kinds whose status is no subresource but part of the object."""
    writes_defaults: bool = False
    """Whether admission writes defaults that depend on other fields into its jobs, because its clients read them."""
    default_queue_is_none: frozenset[str] = frozenset()
    """Kinds in which the default queue counts as no queue, so that the queue of the namespace applies."""
    dotted_job_names: bool = False
    """Whether the name of a job may contain dots."""
    repeats_labels: bool = False
    """Whether annotations of pods repeat their labels, because programs for the API read those."""
    action_events: bool = False
    """Whether its jobs get an event for each action, besides those for the phases that follow from it."""
    ignores_arguments: bool = False
    """Whether arguments that a job plugin does not know are ignored with a warning, as a plugin is that lacks its task."""
    shared_groups: bool = False
    """Whether pods of a service account may join PodGroups of other users in its namespace, as those of a Spark driver do."""
    keys: frozenset[str] = frozenset()
    """volcanopy's labels and annotations that it has under its own domain."""
    models: str = ""
    """The module that derives its models, imported with the first of them: that takes as long as all other models together."""
    without_effect: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Fields that its definitions have and that nothing reads, with the reason: a path in the object, by volcanopy's kind."""

    def __hash__(self) -> int:
        return hash(self.name)

    def api_version(self, api_version: str) -> str:
        """Return its name of a group and version of volcanopy: ``batch.volcano.sh/v1alpha1``."""
        return api_version.replace(f".{_DOMAIN}/", f".{self.domain}/", 1)

    def group(self, group: str) -> str:
        """Return its name of a group of volcanopy; other groups are returned unchanged."""
        return f"{group.removesuffix(_DOMAIN)}{self.domain}" if group.endswith(f".{_DOMAIN}") else group

    def kind(self, kind: str) -> str:
        """Return its name of a kind of volcanopy."""
        return self.kinds.get(kind, kind)

    def plural(self, plural: str) -> str:
        """Return its name of the plural of a kind of volcanopy."""
        renamed = {_plural(kind): _plural(api_kind) for kind, api_kind in self.kinds.items()}
        return renamed.get(plural, plural)

    def key(self, key: str) -> str:
        """Return its name of a label or annotation of volcanopy."""
        return self._own_keys.get(key, key)

    def own(self, group: str, kind: str) -> tuple[str, str]:
        """Return volcanopy's names of a group and kind of this API."""
        kinds = {api_kind: name for name, api_kind in self.kinds.items()}
        return f"{group.removesuffix(self.domain)}{_DOMAIN}", kinds.get(kind, kind)

    def serves(self, kind: str) -> bool:
        """Whether it has a kind of volcanopy."""
        return kind not in self.absent

    @cached_property
    def _own_keys(self) -> dict[str, str]:
        return {key: key.replace(_DOMAIN, self.domain, 1) for key in self.keys}

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Volcanopy's name of each label and annotation that has another one here."""
        return {api_key: key for key, api_key in self._own_keys.items() if api_key != key}


def _plural(kind: str) -> str:
    lower = kind.lower()
    return f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}s"


_WITHOUT_EFFECT: Mapping[str, Mapping[str, str]] = {
    "Queue": {"spec.extendClusters": "jobs are not forwarded to other clusters"},
    "CronBatchJob": {
        "spec.jobTemplate.metadata.name": "jobs are named after the cron job",
        "spec.jobTemplate.metadata.namespace": "jobs are created in the namespace of the cron job",
        "spec.jobTemplate.metadata.finalizers": "jobs get no finalizers from a template",
    },
}
VOLCANOPY = Binding(names.API, _DOMAIN, names.SCHEDULER)
VOLCANO = Binding(
    "volcano",
    "volcano.sh",
    "volcano",
    kinds={"BatchJob": "Job", "CronBatchJob": "CronJob", "NumaTopology": "Numatopology"},
    absent=frozenset({"JobHistory"}),
    status_in_object=frozenset({"PodGroup"}),
    writes_defaults=True,
    default_queue_is_none=frozenset({"PodGroup"}),
    dotted_job_names=True,
    models="volcanopy.api.volcano",
    repeats_labels=True,
    action_events=True,
    ignores_arguments=True,
    shared_groups=True,
    keys=_VOLCANO_KEYS,
    without_effect=_WITHOUT_EFFECT,
)
BINDINGS = (VOLCANOPY, VOLCANO)

APIS: Mapping[str, tuple[Binding, ...]] = {VOLCANOPY.name: (VOLCANOPY,), VOLCANO.name: (VOLCANO,), "both": BINDINGS}
"""The bindings that are served, by the value of ``--api``."""


@lru_cache(256)
def binding_of(api_version: str) -> Binding:
    """Return the binding that a group and version belongs to; that of volcanopy for any other."""
    group = api_version.partition("/")[0]
    return next((binding for binding in BINDINGS if group.endswith(f".{binding.domain}")), VOLCANOPY)


@lru_cache(256)
def binding_of_scheduler(scheduler_name: str) -> Binding:
    """Return the API whose names the pods of a scheduler have; that of volcanopy for any other."""
    return next((binding for binding in BINDINGS if binding.scheduler_name == scheduler_name), VOLCANOPY)


@lru_cache(256)
def is_job(api_version: str, kind: str) -> bool:
    """Whether this is the kind of jobs of one of the APIs."""
    binding = binding_of(api_version)
    return kind == binding.kind("BatchJob") and api_version.startswith(f"{binding.group(names.BATCH)}/")


def with_own_keys(labels: Mapping[str, str], bindings: Iterable[Binding]) -> Mapping[str, str]:
    """Return labels or annotations, with those of other bindings under volcanopy's names as well.

    A value that is given under volcanopy's name is kept. The same mapping is returned where there is nothing to add.
    """
    for binding in bindings:
        aliases = binding.aliases
        if aliases and not aliases.keys().isdisjoint(labels):
            labels = {aliases[key]: value for key, value in labels.items() if key in aliases} | dict(labels)
    return labels


def with_api_keys(labels: Mapping[str, str], binding: Binding, user_keys: Collection[str]) -> dict[str, str]:
    """Return labels or annotations that :func:`with_own_keys` returned, and that may have changed, with the names of an API.

    A key among ``user_keys``, which the user wrote under volcanopy's name, keeps it.
    """
    renamed = {key: binding.key(key) for key in labels if key not in user_keys and binding.key(key) != key}
    return {key: value for key, value in labels.items() if key not in renamed} | {
        api_key: labels[key] for key, api_key in renamed.items()
    }

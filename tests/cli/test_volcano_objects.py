"""Jobs of Volcano's API in what-if questions are BatchJobs with the same pods."""

from volcanopy.api import core, names
from volcanopy.api.bindings import BINDINGS, VOLCANO
from volcanopy.api.model import Json
from volcanopy.api.read_model import OwnerReference
from volcanopy.api.translation import with_own_names
from volcanopy.client.volcano_objects import own_job, served
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.api_view import api_views
from volcanopy.kube.client.connection import Connection

APIS = api_views(Client(Connection("http://127.0.0.1:1")))
EVERY = [binding.name for binding in BINDINGS]
_JOB: Json = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "j", "namespace": "a", "uid": "u"},
    "spec": {"tasks": [{"name": "w", "template": {"metadata": {"annotations": {"volcano.sh/preemptable": "true"}}}}]},
    "status": {"state": {"phase": "Pending"}, "conditions": [{"status": "Pending"}]},
}


def group(api_version: str, explanation: core.Explanation | None = None) -> core.PodGroup:
    owner = OwnerReference(api_version=_JOB["apiVersion"], kind="Job", name="j", uid="u", controller=True)
    meta = core.Meta(name="j-u", namespace="a", uid="g", owner_references=(owner,))
    return core.PodGroup(api_version=api_version, metadata=meta, status=core.PodGroupStatus(explanation=explanation))


def test_a_job_keeps_its_identity_and_gets_the_names_of_volcanopy() -> None:
    job = own_job(with_own_names(_JOB, VOLCANO))
    assert (job["apiVersion"], job["kind"], job["metadata"]) == (names.BATCH_V1ALPHA1, "BatchJob", _JOB["metadata"])
    assert job["spec"]["tasks"][0]["template"]["metadata"]["annotations"][names.PREEMPTABLE] == "true"
    assert job["status"] == {"state": {"phase": "Pending"}}
    assert "volcanopy" not in str(_JOB), "the object of the cluster is left as it is"


def handled(jobs: list[Json], objects: list[core.PodGroup]) -> list[str]:
    return [view.api for view in served(APIS, jobs, objects)]


def test_volcano_objects_count_where_admission_or_the_scheduler_handled_them() -> None:
    assert handled([_JOB], [group("scheduling.volcano.sh/v1beta1")]) == [names.API]
    submitted = _JOB | {"metadata": _JOB["metadata"] | {"annotations": {names.SUBMITTED_BY: "ada"}}}
    assert handled([submitted], []) == EVERY
    waits = group("scheduling.volcano.sh/v1beta1", core.Explanation(gate="nodes"))
    assert handled([], [waits]) == EVERY

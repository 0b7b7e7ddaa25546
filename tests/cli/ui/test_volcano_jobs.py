"""The page of a cluster that serves both APIs: Jobs of Volcano are beside BatchJobs, also of the same name."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.run_commands import local_cluster, run_in_process
from tests.cli.ui.conftest import GANG
from tests.cli.ui.test_server import get, page
from volcanopy.cli.ui.server import TOKEN_HEADER


def of_volcano(manifest: str) -> str:
    body = yaml.safe_load(manifest.replace("worker", "replica"))  # pods of two jobs must not have one name
    body |= {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
    return yaml.safe_dump(body)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a cluster with a BatchJob and a Job of one name, and a Job that waits."""
    path = tmp_path_factory.mktemp("both") / "kubeconfig"
    with local_cluster(path, "--simulate", "1", "--api", "both"):
        gang = GANG.format(name="same", pods=2, cpu=1)
        manifests = [gang, of_volcano(gang), of_volcano(GANG.format(name="waits", pods=2, cpu=8))]
        submitted = run_in_process("job", "submit", "-f", "-", kubeconfig=path, stdin="\n---\n".join(manifests))
        assert submitted.status == 0, submitted
        assert run_in_process("job", "wait", "same", "--for", "phase=Running", kubeconfig=path).status == 0
        yield path


async def test_jobs_of_both_apis_are_shown_explained_and_changed(both: Path) -> None:
    async with page(both) as (url, session):
        table = await get(session, f"{url}api/jobs?sort=NAME")
        assert list(zip(table["keys"], table["apis"], strict=True)) == [
            ("default/same", "volcano"),
            ("default/same", "volcanopy"),
            ("default/waits", "volcano"),
        ]
        kinds = [
            (await get(session, f"{url}api/jobs/default/same?api={api}"))["kind"] for api in ("volcano", "volcanopy")
        ]
        assert kinds == ["Job of batch.volcano.sh/v1alpha1", "BatchJob of batch.volcanopy.io/v1alpha1"]
        async with session.get(f"{url}api/changes") as changes:
            while "numbers" not in (await get(session, f"{url}api/jobs/default/waits"))["report"]:
                await changes.content.readuntil(b"\n\n")
        waits = await get(session, f"{url}api/jobs/default/waits?remedies=all")
        assert waits["report"]["numbers"]["position"] == "1"
        assert any("more node" in remedy["text"] for remedy in waits["report"]["remedies"])
        assert waits["actions"] == ["suspend", "delete"]
        own = await get(session, f"{url}api/session?namespace=default&api=volcano")
        headers = {TOKEN_HEADER: own["token"]}
        async with session.post(f"{url}api/whatif", json={"like": "node-1", "count": 2}, headers=headers) as response:
            changed = [job["job"] for job in (await response.json())["jobs"] if job["changed"]]
        assert changed == ["default/waits"]
        assert own["changes"] == ["suspend", "resume", "delete"]
        async with session.post(f"{url}api/jobs/default/waits/delete?api=volcano", headers=headers) as response:
            assert await response.json() == {"message": 'job "waits" deleted'}


def test_explain_and_positions_are_those_of_all_apis(both: Path) -> None:
    explained = run_in_process("explain", "job", "same", "-o", "json", kubeconfig=both)
    assert '"state": "running"' in explained.out

"""``volcanopy version``: of this program, of the cluster, and of what that serves of ours."""

import asyncio
import json
import sys

import volcanopy
from volcanopy.cli.errors import cluster_error
from volcanopy.cli.framework.options import Cluster, Document
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import KubeError
from volcanopy.kube.client.kinds import Json

_OURS = "volcanopy.io"
_DEADLINE = 5.0
"""Seconds for each question: who asks for a version does not want to wait for a cluster."""


def version(cluster: Cluster, output: Document | None, *, alone: bool) -> None:
    """Print them; that no cluster answers is said on standard error, and is no failure."""
    from volcanopy.cli.framework import documents

    said: Json = {"clientVersion": volcanopy.__version__}
    if not alone:
        try:
            said |= asyncio.run(_served(cluster))
        except KubeError as fault:
            print(f"volcanopy: {cluster_error(fault) or fault}", file=sys.stderr)
    if output in {Document.json, Document.yaml}:
        sys.stdout.write(documents.text(said, output))
        return
    print(f"volcanopy {said['clientVersion']}")
    if "serverVersion" in said:
        print(f"cluster {said['serverVersion']} at {said['server']}")
        for group, versions in said["groups"].items():
            print(f"serves {group}/{', '.join(versions)}")
        if not said["groups"]:
            print(f"serves no group of {_OURS}: volcanopy is not installed there")


async def _served(cluster: Cluster) -> Json:
    async with cluster.client() as client:
        asked = asyncio.gather(_asked(client, "/version"), _asked(client, "/apis"))
        server, groups = await asked
        return {
            "serverVersion": server["gitVersion"],
            "server": client.connection.url,
            "groups": {
                one["name"]: [version["version"] for version in one["versions"]]
                for one in sorted(groups["groups"], key=lambda one: str(one["name"]))
                if one["name"] == _OURS or one["name"].endswith(f".{_OURS}")
            },
        }


async def _asked(client: Client, path: str) -> Json:
    answer: Json = json.loads(await client.get_raw(path, deadline=_DEADLINE))
    return answer

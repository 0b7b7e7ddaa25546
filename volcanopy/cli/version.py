"""``volcanopy version``: versions of this program, of the cluster, and of our API groups that it serves."""

import asyncio
import json
import sys
from typing import Any

from volcanopy.cli.framework.options import ClusterOptions, Document
from volcanopy.client.errors import cluster_error
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import KubeError
from volcanopy.kube.client.kinds import Json
from volcanopy.version import VERSION

_DOMAIN = "volcanopy.io"
_DEADLINE = 5.0
"""Seconds for each request."""


def version(cluster: ClusterOptions, output: Document | None) -> None:
    """Print the versions; an error of the cluster is printed to standard error and is not a failure."""
    from volcanopy.cli.framework import documents

    versions: Json = {"clientVersion": VERSION}
    try:
        versions |= asyncio.run(_cluster_versions(cluster))
    except KubeError as fault:
        print(f"volcanopy: {cluster_error(fault) or fault}", file=sys.stderr)
    if output in {Document.json, Document.yaml}:
        sys.stdout.write(documents.text(versions, output))
        return
    print(f"volcanopy {versions['clientVersion']}")
    if "serverVersion" in versions:
        print(f"cluster {versions['serverVersion']} at {versions['server']}")
        for group, served in versions["groups"].items():
            print(f"serves {group}/{', '.join(served)}")
        if not versions["groups"]:
            print(f"serves no API group of {_DOMAIN}: volcanopy is not installed")


async def _cluster_versions(cluster: ClusterOptions) -> Json:
    async def get(client: Client, path: str) -> Any:
        return json.loads(await client.get_raw(path, deadline=_DEADLINE))

    async with cluster.client() as client:
        server, groups = await asyncio.gather(get(client, "/version"), get(client, "/apis"))
        return {
            "serverVersion": server["gitVersion"],
            "server": client.connection.url,
            "groups": {
                group["name"]: [version["version"] for version in group["versions"]]
                for group in sorted(groups["groups"], key=lambda group: str(group["name"]))
                if group["name"] == _DOMAIN or group["name"].endswith(f".{_DOMAIN}")
            },
        }

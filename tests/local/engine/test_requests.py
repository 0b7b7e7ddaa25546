"""What is asked of a container engine for a container, and how its answers are read; no engine is needed."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from volcanopy.local.engine.api import _message
from volcanopy.local.engine.container_body import Abilities, body_of
from volcanopy.local.engine.images import credentials, full_name, pull_policy, registry_of
from volcanopy.local.engine.start import NoEngineError, abilities_of, socket_of
from volcanopy.local.process.container_spec import Sources, resolve
from volcanopy.local.process.file_view import ContainerView, MountSource
from volcanopy.local.process.runtime import ContainerRequest, ImageError


def body(container: dict[str, Any], abilities: Abilities | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "web:1", **container}
    pod = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"containers": [container], **spec},
        "status": {"podIP": "127.1.0.1", "hostIP": "127.0.0.1"},
    }
    placement = ContainerView({"/data": MountSource(Path("/claims/data"))}, Path("/tmp/t"), Path("/run/hosts"), "p")
    request = ContainerRequest(pod, container, resolve(pod, container, Sources()), placement, Path("log"), "u-main-0")
    return body_of(request, "web:1", "cluster", abilities or Abilities())


def test_command_and_arguments_replace_those_of_the_image_only_where_the_pod_has_them() -> None:
    assert {"Entrypoint", "Cmd", "WorkingDir"}.isdisjoint(body({}))
    own = body({"command": ["sh"], "args": ["-c", "true"], "workingDir": "/data"})
    assert (own["Entrypoint"], own["Cmd"], own["WorkingDir"]) == (["sh"], ["-c", "true"], "/data")


def test_volumes_and_the_hosts_file_are_mounted_and_limits_set_where_the_engine_has_them() -> None:
    container = {"resources": {"limits": {"cpu": "500m", "memory": "64Mi"}}}
    config = body(container)["HostConfig"]
    assert [(mount["Source"], mount["Target"], mount["ReadOnly"]) for mount in config["Mounts"]] == [
        ("/claims/data", "/data", False),
        ("/run/hosts", "/etc/hosts", True),
    ]
    assert (config["Memory"], config["NanoCpus"]) == (64 << 20, 500_000_000)
    assert {"Memory", "NanoCpus"}.isdisjoint(body(container, Abilities(memory=False, cpu=False))["HostConfig"])


def test_limits_of_an_engine_without_root_need_version_2_of_control_groups() -> None:
    facts = {"MemoryLimit": True, "CpuCfsQuota": True, "Rootless": True}
    assert abilities_of({**facts, "CgroupVersion": "1"}, 1000, 1000) == Abilities(memory=False, cpu=False)
    assert abilities_of({**facts, "CgroupVersion": "2"}, 1000, 1000) == Abilities(memory=True, cpu=True)
    assert abilities_of({**facts, "Rootless": False, "CgroupVersion": "1"}, 1000, 1000) == Abilities(
        memory=True, cpu=True, user="1000:1000"
    )


def test_the_user_is_that_of_the_container_then_the_pod_then_the_one_who_started_the_cluster() -> None:
    abilities = Abilities(user="1000:1000")
    pod = {"securityContext": {"runAsUser": 5, "runAsGroup": 6}}
    assert body({"securityContext": {"runAsUser": 7}}, abilities, **pod)["User"] == "7:6"
    assert body({}, abilities, **pod)["User"] == "5:6"
    assert body({}, abilities)["User"] == "1000:1000"
    assert body({})["User"] == ""


@pytest.mark.parametrize(
    ("image", "full", "registry", "policy"),
    [
        ("busybox", "busybox:latest", "https://index.docker.io/v1/", "Always"),
        ("team/tool:2", "team/tool:2", "https://index.docker.io/v1/", "IfNotPresent"),
        ("host:5000/tool", "host:5000/tool:latest", "host:5000", "Always"),
        ("quay.example/a/b:1", "quay.example/a/b:1", "quay.example", "IfNotPresent"),
        ("tool@sha256:" + "0" * 64, "tool@sha256:" + "0" * 64, "https://index.docker.io/v1/", "IfNotPresent"),
    ],
)
def test_image_references_have_a_tag_a_registry_and_a_pull_policy(
    image: str, full: str, registry: str, policy: str
) -> None:
    assert (full_name(image), registry_of(image), pull_policy({"image": image})) == (full, registry, policy)


@pytest.mark.parametrize("image", ["Bad Name", "UPPER", "a:", ""])
def test_what_is_no_image_reference_is_an_invalid_image_name(image: str) -> None:
    with pytest.raises(ImageError) as refused:
        full_name(image)
    assert refused.value.reason == "InvalidImageName"


def test_credentials_come_from_pull_secrets_before_the_file_of_docker(tmp_path: Path) -> None:
    def config(user: str) -> dict[str, Any]:
        return {"auths": {"https://host:5000": {"auth": base64.b64encode(f"{user}:word".encode()).decode()}}}

    file = tmp_path / "config.json"
    file.write_text(json.dumps(config("of-file")))
    data = base64.b64encode(json.dumps(config("of-secret")).encode()).decode()
    sources = Sources(secrets={"pull": {"data": {".dockerconfigjson": data}}})

    def user(image: str, **spec: Any) -> str:
        header = credentials(image, {"spec": spec}, sources, file)
        return str(json.loads(base64.urlsafe_b64decode(header["X-Registry-Auth"]))["username"]) if header else ""

    assert user("host:5000/tool:1", imagePullSecrets=[{"name": "pull"}]) == "of-secret"
    assert user("host:5000/tool:1") == "of-file"
    assert user("other:5000/tool:1") == ""


def test_the_message_of_an_error_is_found_between_other_text() -> None:
    assert _message('1f\r\n{"cause": "x", "message": "no such image"}\r\n0') == "no such image"
    assert _message("plain text\n") == "plain text"


def test_an_engine_on_another_machine_is_rejected() -> None:
    assert socket_of({}) is None
    assert socket_of({"DOCKER_HOST": "unix:///run/a.sock"}) == Path("/run/a.sock")
    with pytest.raises(NoEngineError, match="containers must run on this machine"):
        socket_of({"DOCKER_HOST": "tcp://10.0.0.1:2375"})

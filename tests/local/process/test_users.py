"""As whom programs of pods run."""

from pathlib import Path
from typing import Any

import pytest

from volcanopy.local.process.container_spec import ContainerConfigError
from volcanopy.local.process.users import UNPRIVILEGED, User, Users, user_of_programs

ROOT, ANA, OTHER = User(0, 0), User(1000, 1000), User(UNPRIVILEGED, UNPRIVILEGED)


def of(users: Users, pod: dict[str, Any], container: dict[str, Any]) -> User:
    body = {"metadata": {"name": "p"}, "spec": {"securityContext": pod}}
    return users.of(body, {"name": "main", "securityContext": container})


def test_root_runs_programs_as_the_caller_of_sudo_or_without_rights() -> None:
    assert user_of_programs((Path("/"),), {"SUDO_UID": "1000", "SUDO_GID": "1000"}, ROOT) == ANA
    assert user_of_programs((Path("/"),), {"SUDO_UID": "0"}, ROOT) == OTHER
    assert user_of_programs((Path("/"),), {}, ANA) == ANA


def test_a_container_overrides_the_user_of_its_pod() -> None:
    users = Users(OTHER, ROOT, maps=False)
    assert of(users, {"runAsUser": 5, "runAsGroup": 6}, {"runAsUser": 7}) == User(7, 6)


@pytest.mark.parametrize(
    ("users", "context", "message"),
    [
        (Users(OTHER, ROOT, maps=False), {"runAsUser": 0}, "start the cluster with --run-as-root"),
        (Users(ANA, ANA, maps=False), {"runAsUser": 7}, "not possible with plain processes"),
        (Users(ROOT, ROOT, maps=False), {"runAsNonRoot": True}, "image will run as root"),
        (Users(ANA, ANA, maps=True), {"runAsNonRoot": True, "runAsUser": 0}, "breaks non-root policy"),
    ],
)
def test_a_user_that_is_not_possible_is_a_configuration_error(
    users: Users, context: dict[str, Any], message: str
) -> None:
    with pytest.raises(ContainerConfigError, match=message):
        of(users, context, {})

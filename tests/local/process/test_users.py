"""As whom programs of pods run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hack import distributions
from volcanopy.client.errors import CommandError
from volcanopy_local.cli import process_nodes
from volcanopy_local.cli.options import Isolation
from volcanopy_local.cli.process_nodes import Size
from volcanopy_local.process.container_spec import ContainerConfigError
from volcanopy_local.process.steps import Choice
from volcanopy_local.process.users import UNPRIVILEGED, User, Users, login_entries, user_of_programs

ROOT, ANA, OTHER = User(0, 0), User(1000, 1000), User(UNPRIVILEGED, UNPRIVILEGED)


def of(users: Users, pod: dict[str, Any], container: dict[str, Any]) -> User:
    body = {"metadata": {"name": "p"}, "spec": {"securityContext": pod}}
    return users.of(body, {"name": "main", "securityContext": container})


PASSWD = """root:x:0:0:root:/root:/bin/bash
ana:x:1000:1000::/home/ana:/bin/sh
gone:x:1001:1001::/home/gone:/bin/sh
daemon:x:65534:65534::/nonexistent:/usr/sbin/nologin
"""
FILES = {"/root", "/home/ana", "/bin/bash", "/bin/sh", "/usr/sbin/nologin"}


@pytest.mark.parametrize("user", [User(1001, 1001), User(UNPRIVILEGED, UNPRIVILEGED), User(7, 8)])
def test_a_user_who_cannot_log_in_gets_an_entry_that_is_found_first(user: User) -> None:
    entries = login_entries(PASSWD, user, FILES.__contains__)
    assert entries == f"user{user.uid}:x:{user.uid}:{user.gid}::/tmp:/bin/sh\n{PASSWD}"


@pytest.mark.parametrize("user", [ROOT, ANA])
def test_a_user_who_can_log_in_keeps_the_entry(user: User) -> None:
    assert login_entries(PASSWD, user, FILES.__contains__) is None


async def test_programs_run_as_the_owner_of_the_folder_that_contains_volcanopy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of another user can read this folder: it is that of the checkout, or all packages of an installation."""
    sources = []

    def recording(folders: Sequence[Path], environment: Mapping[str, str], current: User) -> User:
        sources.append(folders[0])
        return user_of_programs(folders, environment, current)

    monkeypatch.setattr(process_nodes, "user_of_programs", recording)
    async with process_nodes.process_settings(None, Size(0, 1, Isolation.plain)):
        assert sources == [distributions.ROOT]


@pytest.mark.parametrize(
    ("size", "beginning"),
    [
        (
            Size(0, 1),
            r"programs of pods cannot run as uid \d+.* here: plain: no right; use --run-as-root, or --simulate",
        ),
        (Size(0, 1, root=Path("/image")), "--rootfs: does not work here: plain: no right$"),
        (Size(0, 1, Isolation.plain), "--isolation plain: does not work here: plain: no right$"),
    ],
)
async def test_where_no_program_can_be_started_the_error_names_the_option_or_the_user(
    size: Size, beginning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_nodes, "choose", lambda *_: Choice(None, {"plain": "no right"}))
    with pytest.raises(CommandError, match=beginning):
        async with process_nodes.process_settings(None, size):
            pass


def test_root_runs_programs_as_the_caller_of_sudo_or_without_rights() -> None:
    assert user_of_programs((Path("/"),), {"SUDO_UID": "1000", "SUDO_GID": "1000"}, ROOT) == ANA
    assert user_of_programs((Path("/"),), {"SUDO_UID": "0"}, ROOT) == OTHER
    assert user_of_programs((Path("/"),), {}, ANA) == ANA


def test_a_container_overrides_the_user_of_its_pod() -> None:
    users = Users(OTHER, ROOT, maps=False)
    pod = {"runAsUser": 4_000_005, "runAsGroup": 4_000_006}
    assert of(users, pod, {"runAsUser": 4_000_007}) == User(4_000_007, 4_000_006)


@pytest.mark.parametrize(
    ("users", "context", "message"),
    [
        (Users(OTHER, ROOT, maps=False), {"runAsUser": 0}, "start the cluster with --run-as-root"),
        (Users(OTHER, ROOT, maps=False), {"runAsUser": 1}, "runAsUser 1 or runAsGroup 65534 is an account"),
        (Users(OTHER, ROOT, maps=False), {"runAsGroup": 1}, "runAsUser 65534 or runAsGroup 1 is an account"),
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

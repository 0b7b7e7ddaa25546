"""Matching of users with the subjects that a queue or a configuration names."""

from collections.abc import Collection, Iterable
from typing import Protocol

_ACCOUNT = "system:serviceaccount:"


class SubjectLists(Protocol):
    """Users, groups, service accounts and namespaces, of the full or the read model."""

    @property
    def users(self) -> Collection[str]:
        """Names of users; ``*`` is every user."""
        ...

    @property
    def groups(self) -> Collection[str]:
        """Names of groups."""
        ...

    @property
    def service_accounts(self) -> Collection[str]:
        """``namespace/name``, or ``namespace/*``."""
        ...

    @property
    def namespaces(self) -> Collection[str]:
        """Namespaces of objects and of service accounts."""
        ...


def account_of(user: str) -> tuple[str, str] | None:
    """Return namespace and name of the service account, if the user is one."""
    if not user.startswith(_ACCOUNT):
        return None
    namespace, _, name = user.removeprefix(_ACCOUNT).partition(":")
    return (namespace, name) if namespace and name else None


def matches(subjects: SubjectLists, user: str, groups: Iterable[str], namespace: str) -> bool:
    """Return whether the user is one of the subjects; ``namespace`` is that of the object, empty if it has none."""
    if user in subjects.users or "*" in subjects.users:
        return True
    if not set(subjects.groups).isdisjoint(groups):
        return True
    account = account_of(user)
    if account is not None:
        accounts = subjects.service_accounts
        if f"{account[0]}/{account[1]}" in accounts or f"{account[0]}/*" in accounts:
            return True
    return (namespace or (account[0] if account else "")) in subjects.namespaces

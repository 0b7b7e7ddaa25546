# ruff: noqa: D102 - the methods of a view are those of its client
"""A client of the objects of one API: the program names all by volcanopy's names, the server those of the API."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
from msgspec import Struct

from volcanopy.api.bindings import APIS, BINDINGS, VOLCANOPY, Binding, binding_of
from volcanopy.api.read_model import Meta
from volcanopy.api.translation import read_with_own_names, with_api_names, with_api_selector, with_own_names
from volcanopy.kube.client.api_client import Body, Client
from volcanopy.kube.client.errors import Forbidden, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import bound

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")


def api_views(client: Client, api: str = "") -> "ApiViews":
    """Return the views of the APIs that are served with ``--api``, by default of all."""
    return ApiViews(client, APIS.get(api, BINDINGS))


def in_api(client: Client, binding: Binding) -> Client:
    """Return the client through which objects of an API have volcanopy's names."""
    return client if binding is VOLCANOPY else ApiView(client, binding)


class ApiViews:
    """The views of the APIs that a process serves, in their order."""

    def __init__(self, client: Client, bindings: Sequence[Binding] = (VOLCANOPY,)) -> None:
        self._views = {binding: in_api(client, binding) for binding in bindings}

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """The APIs."""
        return tuple(self._views)

    @property
    def scheduler_names(self) -> list[str]:
        """The scheduler names of the pods of the APIs."""
        return [binding.scheduler_name for binding in self._views]

    def only(self, condition: Callable[[Client], bool]) -> "ApiViews":
        """Return the views that meet a condition."""
        apis = ApiViews(next(iter(self)), ())
        apis._views = {binding: view for binding, view in self._views.items() if condition(view)}
        return apis

    def __iter__(self) -> Iterator[Client]:
        return iter(self._views.values())

    def __len__(self) -> int:
        return len(self._views)

    def of(self, manifest: Json) -> Client:
        """Return the view of the API that an object is of."""
        return self._views[binding_of(manifest["apiVersion"])]

    async def find(self, kind: Kind[T], namespace: str | None, name: str) -> tuple[Client, T] | None:
        """Return an object with the view of the first API that has it; None if there is none.

        Raises Forbidden if the first API's may not be read; those of others count as absent then.
        """
        for number, view in enumerate(self):
            try:
                return view, await view.get(kind, namespace, name)
            except NotFound:
                continue
            except Forbidden:
                if not number:
                    raise
        return None

    def named(self, api: str) -> Client:
        """Return the view of the API of this name, by default that of the first."""
        return next((view for view in self if view.api == api), next(iter(self)))

    def rank(self, manifest: Json) -> int:
        """Return the position of the API that an object is of."""
        return list(self._views).index(binding_of(manifest["apiVersion"]))

    def kinds(self, *kinds: Kind[T]) -> tuple[Kind[T], ...]:
        """Return these kinds under the names of each API."""
        return tuple(view.of_api(kind) for view in self for kind in kinds)


class ApiView(Client):
    """A view of a client, which is closed with it."""

    def __init__(self, client: Client, binding: Binding) -> None:
        self.__dict__.update(client.__dict__)
        self._binding, self.api = binding, binding.name

    def of_api(self, kind: Kind[T]) -> Kind[T]:
        """Return a kind under the names of the API."""
        return bound(kind, self._binding)

    def reading(self, transform: Callable[[T], T] | None) -> Callable[[T], T] | None:
        return (lambda item: transform(self._read(item))) if transform else self._read

    def _read(self, item: T) -> T:
        if isinstance(item, dict):
            return cast("T", with_own_names(cast("Json", item), self._binding))
        if isinstance(getattr(item, "metadata", None), Meta):
            return read_with_own_names(item, (self._binding,), only=True)
        return item

    def _written(self, body: Body) -> Body:
        if isinstance(body, bytes):
            body = msgspec.json.decode(body)
        if isinstance(body, Struct):
            body = cast("Json", msgspec.to_builtins(body))
        return with_api_names(dict(body), self._binding) if isinstance(body, Mapping) else body

    async def get(self, kind: Kind[T], *args: Any, **options: Any) -> T:
        return self._read(await super().get(self.of_api(kind), *args, **options))

    async def list(self, kind: Kind[T], *args: Any, **options: Any) -> Any:
        options.setdefault("transform", self._read)
        return await super().list(self.of_api(kind), *args, **self._selected(options))

    async def create(self, kind: Kind[T], namespace: str | None, body: Body, **options: Any) -> T:
        return self._read(await super().create(self.of_api(kind), namespace, self._written(body), **options))

    async def update(self, kind: Kind[T], namespace: str | None, name: str, body: Body, **options: Any) -> T:
        return self._read(await super().update(self.of_api(kind), namespace, name, self._written(body), **options))

    async def update_status(self, kind: Kind[Json], manifest: Json, status: Json) -> Json:
        return await super().update_status(self.of_api(kind), manifest, status)

    async def patch(
        self, kind: Kind[T], namespace: str | None, name: str, patch: Body, *args: Any, **options: Any
    ) -> T:
        body = self._written(patch)
        return self._read(await super().patch(self.of_api(kind), namespace, name, body, *args, **options))

    async def patch_status(self, kind: Kind[T], *args: Any, **options: Any) -> T:
        return await super().patch_status(self.of_api(kind), *args, **options)

    async def delete(self, kind: Kind[T], *args: Any, **options: Any) -> None:
        await super().delete(self.of_api(kind), *args, **options)

    async def delete_collection(self, kind: Kind[T], *args: Any, **options: Any) -> None:
        await super().delete_collection(self.of_api(kind), *args, **self._selected(options))

    def watch(self, kind: Kind[T], *args: Any, **options: Any) -> AbstractAsyncContextManager["aiohttp.StreamReader"]:
        return super().watch(self.of_api(kind), *args, **self._selected(options))

    def _selected(self, options: dict[str, Any]) -> dict[str, Any]:
        selector = options.get("label_selector", "")
        return options | {"label_selector": with_api_selector(selector, self._binding)} if selector else options

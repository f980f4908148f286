"""Admission plug-ins: they may change or refuse each write of a client, within its transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from pliant.embedded.apiserver.auth.users import UserInfo
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.storage.store import Store, Transaction
from pliant.embedded.storage.stored_objects import Object


class Operation(StrEnum):
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest:
    """One operation of a user on one object."""

    info: RequestInfo
    transaction: Transaction
    """Reads see all writes decided so far; plug-ins may add writes, which are stored with the object or not at all."""
    operation: Operation
    obj: Object | None
    """The new object with its defaults; None for DELETE. For a subresource with a type of its own, such as a Scale,
    Binding or Eviction, an object of that type."""
    old: Object | None
    """The stored object as this version of its kind; None for CREATE and CONNECT."""
    warnings: list[str] = field(default_factory=list)
    """Messages for the Warning header of the response."""

    @property
    def kind(self) -> Kind:
        return self.info.kind

    @property
    def namespace(self) -> str:
        return self.info.namespace

    @property
    def subresource(self) -> str:
        return self.info.subresource

    @property
    def user(self) -> UserInfo:
        return self.info.user

    @property
    def is_dry_run(self) -> bool:
        return self.transaction.is_dry_run

    @property
    def requested_name(self) -> str:
        """The name in the path or in the new object; empty for each object of a collection that is deleted."""
        return self.info.name or ((self.obj or {}).get("metadata") or {}).get("name") or ""

    @property
    def name(self) -> str:
        """The name of the object, or its generateName while it has none."""
        metadata = (self.obj or self.old or {}).get("metadata") or {}
        return self.info.name or metadata.get("name") or metadata.get("generateName") or "Unknown"


class AdmissionPlugin(Protocol):
    def is_active(self, transaction: Transaction, kind: Kind, namespace: str) -> bool:
        """Return quickly whether the plug-in must see operations on this kind in this namespace."""

    def mutate(self, request: AdmissionRequest) -> None:
        """Change the object of a CREATE or UPDATE in place, after its defaults and before its validation."""

    def validate(self, request: AdmissionRequest) -> None:
        """Raise an `ApiError` to refuse the operation; the object is valid and must not be changed."""


class Admitter:
    """The plug-ins that are active for one operation."""

    def __init__(self, plugins: Sequence[AdmissionPlugin], request: AdmissionRequest | None) -> None:
        self._plugins = plugins
        self._request = request

    def mutate(self) -> None:
        if self._request is not None:
            for plugin in self._plugins:
                plugin.mutate(self._request)

    def validate(self) -> None:
        if self._request is not None:
            for plugin in self._plugins:
                plugin.validate(self._request)


ADMIT_ALL = Admitter((), None)
"""For writes of the API server itself."""


class AdmissionPlugins:
    """The plug-ins of an API server, in the order in which they see requests.

    They see writes of objects and their subresources, bindings, evictions and streams, also those of controllers and
    kubelets, but not the writes of the API server itself, such as garbage collection, nor reviews and token requests.
    """

    def __init__(self, *plugins: AdmissionPlugin) -> None:
        self._plugins = list(plugins)

    def append(self, plugin: AdmissionPlugin) -> None:
        self._plugins.append(plugin)

    def admitter(
        self,
        info: RequestInfo,
        transaction: Transaction,
        operation: Operation,
        *,
        obj: Object | None = None,
        old: Object | None = None,
        warnings: list[str] | None = None,
    ) -> Admitter:
        """Return the active plug-ins with their request."""
        active = self._find_active(info, transaction)
        if not active:
            return ADMIT_ALL
        request = AdmissionRequest(
            info=info,
            transaction=transaction,
            operation=operation,
            obj=obj,
            old=old,
            warnings=[] if warnings is None else warnings,
        )
        return Admitter(active, request)

    def are_active(self, info: RequestInfo, transaction: Transaction) -> bool:
        return bool(self._find_active(info, transaction))

    def _find_active(self, info: RequestInfo, transaction: Transaction) -> list[AdmissionPlugin]:
        return [each for each in self._plugins if each.is_active(transaction, info.kind, info.namespace)]

    def validate(
        self,
        info: RequestInfo,
        transaction: Transaction,
        operation: Operation,
        *,
        obj: Object | None = None,
        old: Object | None = None,
        warnings: list[str] | None = None,
    ) -> None:
        """Raise an `ApiError` if a plug-in refuses an operation that changes no object of the request."""
        self.admitter(info, transaction, operation, obj=obj, old=old, warnings=warnings).validate()

    def validate_connect(self, store: Store, info: RequestInfo, options: Object) -> None:
        """Raise an `ApiError` if a plug-in refuses a stream, such as exec, with these options."""
        if self._plugins:
            self.validate(info, store.read_only_transaction(), Operation.CONNECT, obj=options)

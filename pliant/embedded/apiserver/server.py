"""The API server without HTTP: it turns a request into a reply or a stream."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pliant.embedded.apiserver.admission.admission import CRDS_RESOURCE_KEY, Admission
from pliant.embedded.apiserver.admission.cluster_ip_allocator import SERVICES_RESOURCE_KEY, ClusterIpAllocator
from pliant.embedded.apiserver.admission.plugins import AdmissionPlugins
from pliant.embedded.apiserver.admission.priority_classes import PriorityAdmission
from pliant.embedded.apiserver.auth.tokens import TokenIssuer, handle_token_request, is_bound_pod_present
from pliant.embedded.apiserver.auth.users import ADMIN_USER, UserInfo
from pliant.embedded.apiserver.authorization import attributes
from pliant.embedded.apiserver.authorization.aggregation import ClusterRoleAggregator, reconcile_default_roles
from pliant.embedded.apiserver.authorization.authorizer import AuthorizationMode, Authorizer
from pliant.embedded.apiserver.authorization.rbac_index import RBAC_API_GROUP
from pliant.embedded.apiserver.authorization.reviews import REVIEW_API_GROUPS, answer_review
from pliant.embedded.apiserver.authorization.write_authorizer import WriteAuthorizer
from pliant.embedded.apiserver.garbage_collection import EventExpiry, GarbageCollector
from pliant.embedded.apiserver.handlers import deletion, get_list, pod_subresources, resource_metrics, scale
from pliant.embedded.apiserver.handlers.admitted_writes import AdmittedWriter
from pliant.embedded.apiserver.handlers.ephemeral_containers import update_ephemeral_containers
from pliant.embedded.apiserver.handlers.object_lifecycle import NAMESPACES_RESOURCE_KEY
from pliant.embedded.apiserver.handlers.watch import open_watch
from pliant.embedded.apiserver.handlers.writes import ObjectWriter
from pliant.embedded.apiserver.http.errors import bad_request, method_not_allowed
from pliant.embedded.apiserver.http.negotiation import require_acceptable
from pliant.embedded.apiserver.http.representations import to_accepted_reply
from pliant.embedded.apiserver.http.request_info import RequestInfo, parse_request_path
from pliant.embedded.apiserver.http.responses import error_response
from pliant.embedded.apiserver.policies.plugin import PolicyAdmission
from pliant.embedded.apiserver.quota.limit_ranger import LimitRanger
from pliant.embedded.apiserver.quota.quota_admission import QuotaAdmission
from pliant.embedded.apiserver.quota.usage_updates import QuotaUsageUpdater
from pliant.embedded.apiserver.streaming import logs, node_logs, sessions
from pliant.embedded.registry.discovery import DiscoveryHandler
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store, Transaction
from pliant.embedded.storage.stored_objects import ObjectChange, ObjectKey, StoredObject
from pliant.errors import ApiError, NotFound
from pliant.kube.transport.base import Reply, Request, StreamReply
from pliant.runtime.clock import Clock

_SPECIAL_SUBRESOURCES = frozenset(
    {"log", "binding", "scale", "exec", "attach", "eviction", "portforward", "proxy", "token", "ephemeralcontainers"}
)
_TEXT_SUBRESOURCES = frozenset({"log", "proxy", "exec", "attach", "portforward"})
"""Subresources whose replies are not objects."""


class ApiServer:
    """Serves the objects of a store under the kinds of a registry."""

    def __init__(
        self,
        store: Store,
        registry: KindRegistry,
        clock: Clock,
        *,
        log_source: logs.LogSource | None = None,
        rng: random.Random | None = None,
        authorization_mode: AuthorizationMode = AuthorizationMode.ALWAYS_ALLOW,
    ) -> None:
        self.store = store
        self.registry = registry
        self.log_source = log_source
        self.session_source: sessions.SessionSource | None = None
        self.usage_source: resource_metrics.ContainerUsageSource | None = None
        self.node_log_source: node_logs.NodeLogSource | None = None
        self._clock = clock
        self.tokens = TokenIssuer(clock)
        self._discovery = DiscoveryHandler(registry)
        self._cluster_ips = ClusterIpAllocator()
        self.authorizer = Authorizer(store, authorization_mode)
        self._aggregator = ClusterRoleAggregator(store)
        write_authorizer = WriteAuthorizer(self.authorizer)
        self.admission_plugins = AdmissionPlugins(  # in the order of kube-apiserver
            LimitRanger(), PriorityAdmission(), PolicyAdmission(registry, self.authorizer), QuotaAdmission()
        )
        self._admitted_writer = AdmittedWriter(
            Admission(self._cluster_ips), self.admission_plugins, write_authorizer, clock, rng or random.Random()
        )
        self._writer = ObjectWriter(store, self._admitted_writer, clock)

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        store: Store,
        registry: KindRegistry,
        clock: Clock,
        *,
        log_source: logs.LogSource | None = None,
        rng: random.Random | None = None,
        authorization_mode: AuthorizationMode = AuthorizationMode.ALWAYS_ALLOW,
    ) -> AsyncIterator[ApiServer]:
        """Start an API server with garbage collection, expiry of events, aggregated roles and the usage of quotas."""
        api = cls(store, registry, clock, log_source=log_source, rng=rng, authorization_mode=authorization_mode)
        await api.initialize_from_store()
        try:
            async with asyncio.TaskGroup() as tasks:
                quotas = QuotaUsageUpdater(store, registry, clock)
                loops = (GarbageCollector(store, clock), EventExpiry(store), api._aggregator, quotas)
                background = [tasks.create_task(loop.run()) for loop in loops]
                try:
                    yield api
                finally:
                    for task in background:
                        task.cancel()
        except BaseExceptionGroup as group:
            # Unwrap an error of the caller's block, which the task group has put into a group.
            if len(group.exceptions) > 1:
                raise
            raise group.exceptions[0] from None

    async def initialize_from_store(self) -> None:
        """Load cluster IPs, CRDs and roles from the store, and create the initial namespaces and roles."""
        index = self.store.committed
        self._cluster_ips.mark_existing_allocated(index.list_objects(SERVICES_RESOURCE_KEY))
        # In creation order, because kubectl takes the first of several kinds with the same name.
        for crd in sorted(index.list_objects(CRDS_RESOURCE_KEY), key=_creation_order):
            self.registry.register_crd(crd.decode())
        self.store.add_listener(self._cluster_ips.on_commit)
        self.store.add_listener(self._on_crd_commit)
        await self.store.run_transaction(self._create_initial_namespaces)
        if self.authorizer.mode is AuthorizationMode.RBAC:
            await self.store.run_transaction(self._reconcile_default_roles)
        await self._aggregator.start()
        self.authorizer.start()

    def authenticate(self, token: str) -> UserInfo | None:
        """Return the user of a service account token; None if it is invalid, or bound to a pod that is gone."""
        user = self.tokens.authenticate(token)
        return user if user is not None and is_bound_pod_present(self.store.committed, user) else None

    async def handle(self, request: Request, user: UserInfo = ADMIN_USER) -> Reply | StreamReply:
        """Process a request of a user; errors are returned as a Status."""
        try:
            reply = await self._dispatch(request, user)
        except ApiError as error:
            reply = error_response(error)
        return await to_accepted_reply(reply, request)

    def prepare_session(
        self, request: Request, command: Sequence[str], user: UserInfo = ADMIN_USER
    ) -> sessions.PreparedSession:
        """Prepare an exec or attach session; raise `ApiError` when the container does not run."""
        info = self._authorize_stream(request, user)
        self.admission_plugins.validate_connect(self.store, info, sessions.connect_options(info, command))
        return sessions.prepare_session(self.store.committed, info, command, self.session_source)

    def prepare_port_forward(self, request: Request, user: UserInfo = ADMIN_USER) -> sessions.PortConnector:
        """Return a function that connects to the ports of a pod; raise `ApiError` when the pod does not run."""
        info = self._authorize_stream(request, user)
        self.admission_plugins.validate_connect(self.store, info, sessions.connect_options(info, ()))
        return sessions.prepare_port_forward(self.store.committed, info, self.session_source)

    async def _dispatch(self, request: Request, user: UserInfo) -> Reply | StreamReply:
        discovery = await self._discovery.handle(request) if request.method == "GET" else None
        if discovery is not None:
            self.authorizer.require(attributes.path_attributes(request, user))
            return discovery
        info = self._authorize(request, user)
        if info.kind.unsupported_message and request.method in ("POST", "PUT", "PATCH"):
            raise method_not_allowed(info.kind.unsupported_message)
        if info.subresource not in _TEXT_SUBRESOURCES:
            require_acceptable(info.kind, request.accept, is_watch=info.query_bool("watch"))
        if info.kind.group in REVIEW_API_GROUPS:
            return self._handle_review(info)
        if info.kind.group == resource_metrics.METRICS_API_GROUP:
            return await resource_metrics.get_metrics(self.store.committed, info, self.usage_source, self._clock.now())
        if info.subresource in _SPECIAL_SUBRESOURCES or info.kind.kind == "Binding":
            return await self._handle_special_subresource(info)
        return await (self._handle_object(info) if info.name else self._handle_collection(info))

    def _authorize(self, request: Request, user: UserInfo) -> RequestInfo:
        """Return the request for a resource; raise `Forbidden` if it is not allowed, `NotFound` if it is not served."""
        if self.authorizer.allows_everything(user):
            return parse_request_path(self.registry, request, user)
        try:
            info = parse_request_path(self.registry, request, user)
        except NotFound:
            self.authorizer.require(attributes.unserved_attributes(request, user))
            raise
        self.authorizer.require(attributes.resource_attributes(info, user))
        return info

    def _authorize_stream(self, request: Request, user: UserInfo) -> RequestInfo:
        """Authorize exec, attach or port-forward: a WebSocket begins with GET, but `create` is required, too."""
        info = self._authorize(request, user)
        self.authorizer.require(attributes.resource_attributes(info, user)._replace(verb="create"))
        return info

    def _handle_review(self, info: RequestInfo) -> Reply:
        if info.request.method != "POST" or info.name:
            raise method_not_allowed()
        return answer_review(info, self.authorizer, info.user, self._clock.now())

    async def _handle_object(self, info: RequestInfo) -> Reply | StreamReply:
        match info.request.method:
            case "GET" | "HEAD":
                return get_list.get_object(self.store.committed, info, self._clock.now())
            case "PUT":
                return await self._writer.update(info)
            case "PATCH":
                return await self._writer.patch(info)
            case "DELETE" if not info.subresource:
                return await deletion.delete_object(self.store, info, self.admission_plugins, self._clock)
            case _:
                raise method_not_allowed()

    async def _handle_collection(self, info: RequestInfo) -> Reply | StreamReply:
        match info.request.method:
            case "GET" if info.query_bool("watch"):
                return open_watch(self.store.committed, info, self._clock)
            case "GET" | "HEAD":
                return get_list.list_objects(self.store.committed, info, self._clock.now())
            case "POST" if info.namespace or not info.kind.namespaced:
                return await self._writer.create(info)
            case "DELETE":
                return await deletion.delete_collection(self.store, info, self.admission_plugins, self._clock)
            case _:
                raise method_not_allowed()

    async def _handle_special_subresource(self, info: RequestInfo) -> Reply | StreamReply:
        match info.subresource or "binding", info.request.method:
            case "log", "GET":
                return logs.read_pod_log(self.store.committed, info, self.log_source, self._clock)
            case "proxy", "GET" | "HEAD":
                return await node_logs.read_node_logs(self.store.committed, info, self.node_log_source, self._clock)
            case "binding", "POST":
                return await pod_subresources.bind_pod(self.store, info, self.admission_plugins, self._clock)
            case "ephemeralcontainers", "GET":
                return get_list.get_object(self.store.committed, info, self._clock.now())
            case "ephemeralcontainers", "PUT" | "PATCH":
                return await update_ephemeral_containers(self._writer, info)
            case "scale", "GET":
                return scale.get_scale(self.store.committed, info)
            case "scale", "PUT" | "PATCH":
                return await scale.update_scale(self._writer, info, self._clock.now())
            case "eviction", "POST":
                return await pod_subresources.evict_pod(self.store, info, self.admission_plugins, self._clock)
            case "token", "POST":
                return handle_token_request(self.store.committed, info, self.tokens, self._clock)
            case "exec" | "attach" | "portforward", _:
                raise bad_request("Upgrade request required")
            case _:
                raise method_not_allowed()

    def _on_crd_commit(self, changes: Sequence[ObjectChange]) -> None:
        for change in changes:
            if change.after.key.resource == CRDS_RESOURCE_KEY:
                if change.is_deleted:
                    self.registry.unregister_crd(change.after.key.name)
                else:
                    self.registry.register_crd(change.after.decode())

    def _create_initial_namespaces(self, transaction: Transaction) -> None:
        kind = self.registry.find_resource("", "v1", "namespaces")
        for name in deletion.PROTECTED_BUILTIN_NAMESPACES:
            if kind is not None and transaction.get(ObjectKey(NAMESPACES_RESOURCE_KEY, "", name)) is None:
                namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                self._admitted_writer.add_object(transaction, kind, "", namespace)

    def _reconcile_default_roles(self, transaction: Transaction) -> None:
        reconcile_default_roles(transaction, self._add_rbac_object)

    def _add_rbac_object(self, transaction: Transaction, plural: str, manifest: dict[str, Any]) -> None:
        kind = self.registry.find_resource(RBAC_API_GROUP, "v1", plural)
        if kind is not None:
            self._admitted_writer.add_object(transaction, kind, "", manifest)


def _creation_order(crd: StoredObject) -> tuple[str, int]:
    # Timestamps have whole seconds; within a second, the resource version decides.
    return crd.decode()["metadata"]["creationTimestamp"], crd.version

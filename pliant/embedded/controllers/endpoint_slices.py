"""EndpointSlices of services with a selector, and the service `kubernetes`."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from functools import partial
from typing import Any

from pliant.embedded.network.service_index import (
    API_SERVICE_IP,
    API_SERVICE_KEY,
    API_SERVICE_PORT,
    ServiceIndex,
    resolve_target_port,
)
from pliant.embedded.object_views import PodView, ServiceView
from pliant.embedded.registry.conversions import ENDPOINT_SLICE_MANAGER_LABEL, SERVICE_NAME_LABEL
from pliant.embedded.retries import NON_RETRYABLE_API_ERRORS, retry_until_answered
from pliant.errors import AlreadyExists, ApiError
from pliant.kube.client import KubeClient
from pliant.kube.resources import ENDPOINT_SLICES, SERVICES

_BATCH_DELAY = 0.25
"""Seconds for which changes are collected: a pod that starts changes several times."""
_CONTROLLER_NAME = "endpointslice-controller.k8s.io"

log = logging.getLogger(__name__)

ServiceKey = tuple[str, str]


class EndpointSliceController:
    """Keeps one EndpointSlice, with the name of the service, for every service that selects pods.

    Its change handlers must run after those of the service index. Slices are deleted together with their owner.
    """

    def __init__(self, client: KubeClient, service_index: ServiceIndex) -> None:
        self._client = client
        self._service_index = service_index
        self._services_by_label: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        """Names of services, by namespace and the label of their selector that the fewest other services share."""
        self._index_labels: dict[ServiceKey, tuple[str, str, str]] = {}
        self._written: dict[ServiceKey, dict[str, Any]] = {}
        self._due: set[ServiceKey] = set()
        self._woken = asyncio.Event()

    async def run(self) -> None:
        while True:
            await self._woken.wait()
            await asyncio.sleep(_BATCH_DELAY)
            self._woken.clear()
            services, self._due = self._due, set()
            for key in sorted(services):
                service = self._service_index.service(*key)
                if service is not None:
                    await self._sync_slice(key, service)

    def on_service_change(self, old: ServiceView | None, new: ServiceView | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._written.pop((old.metadata.namespace, old.metadata.name), None)
        for service in (old, new):
            if service is not None:
                self._unindex_service((service.metadata.namespace, service.metadata.name))
        if new is not None and new.spec.selector:
            self._index_service(new)
            self._enqueue_service(new.metadata.namespace, new.metadata.name)

    def _unindex_service(self, key: ServiceKey) -> None:
        label = self._index_labels.pop(key, None)
        if label is not None:
            self._services_by_label[label].discard(key[1])
            if not self._services_by_label[label]:
                del self._services_by_label[label]

    def _index_service(self, service: ServiceView) -> None:
        """Index a service by its rarest label: the replicas of a job share some labels, and each has one of its own."""
        namespace, name = service.metadata.namespace, service.metadata.name
        labels = [(namespace, *label) for label in service.spec.selector.items()]
        rarest = min(labels, key=lambda label: len(self._services_by_label.get(label, ())))
        self._services_by_label[rarest].add(name)
        self._index_labels[namespace, name] = rarest

    def on_pod_change(self, old: PodView | None, new: PodView | None) -> None:
        for pod in (old, new):
            if pod is not None:
                for label in pod.metadata.labels.items():
                    for name in self._services_by_label.get((pod.metadata.namespace, *label), ()):
                        self._enqueue_service(pod.metadata.namespace, name)

    def _enqueue_service(self, namespace: str, name: str) -> None:
        if (namespace, name) != API_SERVICE_KEY:
            self._due.add((namespace, name))
            self._woken.set()

    async def _sync_slice(self, key: ServiceKey, service: ServiceView) -> None:
        desired = build_endpoint_slice(service, self._service_index.selected_pods(service))
        if self._written.get(key) == desired:
            return
        try:
            await self._write_slice(key, desired)
        except NON_RETRYABLE_API_ERRORS as error:
            log.info("EndpointSlice not written", extra={"service": "/".join(key), "error": str(error)})
        else:
            self._written[key] = desired

    async def _write_slice(self, key: ServiceKey, desired: dict[str, Any]) -> None:
        if key not in self._written:
            try:
                await retry_until_answered(partial(self._client.create, ENDPOINT_SLICES, key[0], desired))
            except AlreadyExists:
                pass  # created by an earlier run of the cluster or by a user
            else:
                return
        await retry_until_answered(partial(self._client.patch, ENDPOINT_SLICES, *key, desired))


def build_endpoint_slice(service: ServiceView, pods: list[PodView]) -> dict[str, Any]:
    meta = service.metadata
    labels = {**meta.labels, SERVICE_NAME_LABEL: meta.name, ENDPOINT_SLICE_MANAGER_LABEL: _CONTROLLER_NAME}
    if service.spec.cluster_ip == "None":
        labels["service.kubernetes.io/headless"] = ""
    owner = {"apiVersion": "v1", "kind": "Service", "name": meta.name, "uid": meta.uid}
    return {
        "apiVersion": ENDPOINT_SLICES.api_version,
        "kind": ENDPOINT_SLICES.kind,
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "labels": labels,
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "addressType": "IPv4",
        "endpoints": [_build_endpoint(service, pod) for pod in pods],
        "ports": [
            {"name": port.name, "port": resolve_target_port(pods[0], port) or port.port, "protocol": port.protocol}
            for port in service.spec.ports
            if pods
        ],
    }


def _build_endpoint(service: ServiceView, pod: PodView) -> dict[str, Any]:
    meta, is_terminating = pod.metadata, pod.metadata.deletion_timestamp is not None
    is_ready = service.spec.publish_not_ready_addresses or (pod.is_ready and not is_terminating)
    endpoint: dict[str, Any] = {
        "addresses": [pod.status.pod_ip],
        "conditions": {"ready": is_ready, "serving": pod.is_ready, "terminating": is_terminating},
        "nodeName": pod.spec.node_name,
        "targetRef": {"kind": "Pod", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid},
    }
    if pod.spec.hostname and pod.spec.subdomain == service.metadata.name:
        endpoint["hostname"] = pod.spec.hostname
    return endpoint


_SERVICE_NAMESPACE, _SERVICE_NAME = API_SERVICE_KEY
_HTTPS_PORT = {"name": "https", "protocol": "TCP"}


class KubernetesServiceController:
    """Creates the service and its EndpointSlice, again after a user deletes the service."""

    def __init__(self, client: KubeClient, api_server_address: tuple[str, int]) -> None:
        self._client = client
        self._api_server_address = api_server_address
        self._service_missing = asyncio.Event()
        self._service_missing.set()

    async def run(self) -> None:
        while True:
            await self._service_missing.wait()
            self._service_missing.clear()
            try:
                await self._create_or_patch(SERVICES, self._service_manifest())
                await self._create_or_patch(ENDPOINT_SLICES, self._endpoint_slice_manifest())
            except ApiError as error:
                log.warning("service kubernetes not created", extra={"error": str(error)})

    def on_service_change(self, old: ServiceView | None, new: ServiceView | None) -> None:
        if new is None and old is not None and (old.metadata.namespace, old.metadata.name) == API_SERVICE_KEY:
            self._service_missing.set()

    async def _create_or_patch(self, resource: Any, body: dict[str, Any]) -> None:
        try:
            await retry_until_answered(partial(self._client.create, resource, _SERVICE_NAMESPACE, body))
        except AlreadyExists:
            await retry_until_answered(partial(self._client.patch, resource, _SERVICE_NAMESPACE, _SERVICE_NAME, body))

    def _service_manifest(self) -> dict[str, Any]:
        labels = {"component": "apiserver", "provider": "kubernetes"}
        ports = [{**_HTTPS_PORT, "port": API_SERVICE_PORT, "targetPort": self._api_server_address[1]}]
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": _SERVICE_NAME, "namespace": _SERVICE_NAMESPACE, "labels": labels},
            "spec": {"type": "ClusterIP", "clusterIP": API_SERVICE_IP, "ports": ports},
        }

    def _endpoint_slice_manifest(self) -> dict[str, Any]:
        address, port = self._api_server_address
        return {
            "apiVersion": ENDPOINT_SLICES.api_version,
            "kind": ENDPOINT_SLICES.kind,
            "metadata": {
                "name": _SERVICE_NAME,
                "namespace": _SERVICE_NAMESPACE,
                "labels": {SERVICE_NAME_LABEL: _SERVICE_NAME},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": [{**_HTTPS_PORT, "port": port}],
        }

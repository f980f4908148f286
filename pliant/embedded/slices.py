"""Tells by EndpointSlices where services lead to, as Kubernetes' controller does; Endpoints are a form of them."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from functools import partial
from typing import Any

from pliant.embedded.catalog.endpoint_form import MANAGED_BY, SERVICE_NAME
from pliant.embedded.names import API, Names, port_of
from pliant.embedded.patience import TURNED_DOWN, patiently
from pliant.embedded.views import PodView, ServiceView
from pliant.errors import AlreadyExists
from pliant.kube.client import KubeClient
from pliant.kube.resources import ENDPOINT_SLICES

_PAUSE = 0.25
"""Seconds in which changes are gathered: a pod that starts changes more than once."""
_CONTROLLER = "endpointslice-controller.k8s.io"

log = logging.getLogger(__name__)

Key = tuple[str, str]


class Slices:
    """Keeps one slice, of the same name, for every service that selects pods.

    Must hear of pods and services after the names have. Slices of services that are gone go with their owner.
    """

    def __init__(self, client: KubeClient, names: Names) -> None:
        self._client = client
        self._names = names
        self._by_label: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        """Names of services, by namespace and one label of their pods: the one that fewest others are kept by."""
        self._kept_by: dict[Key, tuple[str, str, str]] = {}
        self._written: dict[Key, dict[str, Any]] = {}
        self._due: set[Key] = set()
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Write slices until cancelled."""
        while True:
            await self._woken.wait()
            await asyncio.sleep(_PAUSE)
            self._woken.clear()
            due, self._due = self._due, set()
            for key in sorted(due):
                service = self._names.service(*key)
                if service is not None:
                    await self._tell(key, service)

    def service_changed(self, old: ServiceView | None, new: ServiceView | None) -> None:
        """Take in what became of a service."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._written.pop((old.metadata.namespace, old.metadata.name), None)
        for service in (old, new):
            if service is not None:
                self._forget((service.metadata.namespace, service.metadata.name))
        if new is not None and new.spec.selector:
            self._keep(new)
        if new is not None and new.spec.selector:
            self._wake(new.metadata.namespace, new.metadata.name)

    def _forget(self, key: Key) -> None:
        label = self._kept_by.pop(key, None)
        if label is not None:
            self._by_label[label].discard(key[1])
            if not self._by_label[label]:
                del self._by_label[label]

    def _keep(self, service: ServiceView) -> None:
        """Remember a service by its rarest label: all members of a job share one, and each has one of its own."""
        namespace, name = service.metadata.namespace, service.metadata.name
        labels = [(namespace, *label) for label in service.spec.selector.items()]
        rarest = min(labels, key=lambda label: len(self._by_label.get(label, ())))
        self._by_label[rarest].add(name)
        self._kept_by[namespace, name] = rarest

    def pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        """Take in what became of a pod."""
        for pod in (old, new):
            if pod is not None:
                for label in pod.metadata.labels.items():
                    for name in self._by_label.get((pod.metadata.namespace, *label), ()):
                        self._wake(pod.metadata.namespace, name)

    def _wake(self, namespace: str, name: str) -> None:
        if (namespace, name) != API:
            self._due.add((namespace, name))
            self._woken.set()

    async def _tell(self, key: Key, service: ServiceView) -> None:
        wanted = slice_of(service, self._names.pods_matching(service))
        if self._written.get(key) == wanted:
            return
        try:
            await self._write(key, wanted)
        except TURNED_DOWN as refusal:
            log.info("slice not written", extra={"service": "/".join(key), "because": str(refusal)})
        else:
            self._written[key] = wanted

    async def _write(self, key: Key, wanted: dict[str, Any]) -> None:
        if key not in self._written:
            try:
                await patiently(partial(self._client.create, ENDPOINT_SLICES, key[0], wanted))
            except AlreadyExists:
                pass  # from an earlier start of the cluster, or somebody else's
            else:
                return
        await patiently(partial(self._client.patch, ENDPOINT_SLICES, *key, wanted))


def slice_of(service: ServiceView, pods: list[PodView]) -> dict[str, Any]:
    """What is told of a service and the pods behind it."""
    meta = service.metadata
    labels = {**meta.labels, SERVICE_NAME: meta.name, MANAGED_BY: _CONTROLLER}
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
        "endpoints": [_endpoint(service, pod) for pod in pods],
        "ports": [
            {"name": port.name, "port": port_of(pods[0], port) or port.port, "protocol": port.protocol}
            for port in service.spec.ports
            if pods
        ],
    }


def _endpoint(service: ServiceView, pod: PodView) -> dict[str, Any]:
    meta, is_leaving = pod.metadata, pod.metadata.deletion_timestamp is not None
    is_ready = service.spec.publish_not_ready_addresses or (pod.is_ready and not is_leaving)
    told: dict[str, Any] = {
        "addresses": [pod.status.pod_ip],
        "conditions": {"ready": is_ready, "serving": pod.is_ready, "terminating": is_leaving},
        "nodeName": pod.spec.node_name,
        "targetRef": {"kind": "Pod", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid},
    }
    if pod.spec.hostname and pod.spec.subdomain == service.metadata.name:
        told["hostname"] = pod.spec.hostname
    return told

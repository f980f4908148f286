"""Keeps the service `kubernetes` in the namespace `default`."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

from pliant.embedded.network.service_index import API_SERVICE_IP, API_SERVICE_KEY, API_SERVICE_PORT
from pliant.embedded.object_views import ServiceView
from pliant.embedded.registry.conversions import SERVICE_NAME_LABEL
from pliant.embedded.retries import with_retries
from pliant.errors import AlreadyExists, ApiError
from pliant.kube.client import KubeClient
from pliant.kube.resources import ENDPOINT_SLICES, SERVICES

_SERVICE_NAMESPACE, _SERVICE_NAME = API_SERVICE_KEY
_HTTPS_PORT = {"name": "https", "protocol": "TCP"}

log = logging.getLogger(__name__)


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
            await with_retries(partial(self._client.create, resource, _SERVICE_NAMESPACE, body))
        except AlreadyExists:
            await with_retries(partial(self._client.patch, resource, _SERVICE_NAMESPACE, _SERVICE_NAME, body))

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

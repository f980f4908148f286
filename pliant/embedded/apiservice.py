"""The service `kubernetes` of the namespace `default`, as every cluster has one."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

from pliant.embedded.catalog.endpoint_form import SERVICE_NAME
from pliant.embedded.names import API, API_ADDRESS, API_PORT
from pliant.embedded.patience import patiently
from pliant.embedded.views import ServiceView
from pliant.errors import AlreadyExists, ApiError
from pliant.kube.client import KubeClient
from pliant.kube.resources import ENDPOINT_SLICES, SERVICES

_NAMESPACE, _NAME = API
_PORT = {"name": "https", "protocol": "TCP"}

log = logging.getLogger(__name__)


class ApiService:
    """Keeps the service there, also when somebody deletes it, and says where it leads to."""

    def __init__(self, client: KubeClient, place: tuple[str, int]) -> None:
        self._client = client
        self._place = place
        """Address and port at which the API server listens."""
        self._missed = asyncio.Event()
        self._missed.set()

    async def run(self) -> None:
        """Make it until cancelled, whenever it is not there."""
        while True:
            await self._missed.wait()
            self._missed.clear()
            try:
                await self._made(SERVICES, self._service())
                await self._made(ENDPOINT_SLICES, self._slice())
            except ApiError as refusal:
                log.warning("service kubernetes not made", extra={"because": str(refusal)})

    def service_changed(self, old: ServiceView | None, new: ServiceView | None) -> None:
        """Take in what became of a service."""
        if new is None and old is not None and (old.metadata.namespace, old.metadata.name) == API:
            self._missed.set()

    async def _made(self, resource: Any, body: dict[str, Any]) -> None:
        try:
            await patiently(partial(self._client.create, resource, _NAMESPACE, body))
        except AlreadyExists:
            await patiently(partial(self._client.patch, resource, _NAMESPACE, _NAME, body))

    def _service(self) -> dict[str, Any]:
        labels = {"component": "apiserver", "provider": "kubernetes"}
        ports = [{**_PORT, "port": API_PORT, "targetPort": self._place[1]}]
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": _NAME, "namespace": _NAMESPACE, "labels": labels},
            "spec": {"type": "ClusterIP", "clusterIP": API_ADDRESS, "ports": ports},
        }

    def _slice(self) -> dict[str, Any]:
        address, port = self._place
        return {
            "apiVersion": ENDPOINT_SLICES.api_version,
            "kind": ENDPOINT_SLICES.kind,
            "metadata": {"name": _NAME, "namespace": _NAMESPACE, "labels": {SERVICE_NAME: _NAME}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": [{**_PORT, "port": port}],
        }

"""Endpoints, the older way to tell where services lead to, as a form of the slices that are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pliant.embedded.catalog.forms import Form, Object

SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
_OF_SLICES: Final = (SERVICE_NAME, MANAGED_BY, "service.kubernetes.io/headless")
_OTHERWISE: Final = ("labels", "generation")
_OF_ADDRESSES: Final = ("hostname", "nodeName", "targetRef")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointsForm(Form):
    """A slice of the same name, with its endpoints sorted by whether they are ready."""

    def shown(self, kept: Object) -> Object:
        """The endpoints of a slice."""
        labels = {
            name: value for name, value in (kept["metadata"].get("labels") or {}).items() if name not in _OF_SLICES
        }
        metadata = {name: value for name, value in kept["metadata"].items() if name not in _OTHERWISE}
        if labels:
            metadata["labels"] = labels
        told: Object = {"apiVersion": self.api_version, "kind": "Endpoints", "metadata": metadata}
        endpoints = kept.get("endpoints") or ()
        subset = {
            "addresses": [each for one in endpoints if _is_ready(one) for each in _addresses(one)],
            "notReadyAddresses": [each for one in endpoints if not _is_ready(one) for each in _addresses(one)],
            "ports": kept.get("ports") or [],
        }
        if endpoints:
            told["subsets"] = [{name: value for name, value in subset.items() if value}]
        return told

    def kept(self, shown: Object) -> Object:
        """The slice of somebody's endpoints; all their subsets are taken to have the ports of the first."""
        subsets = shown.get("subsets") or ()
        labels = {**(shown["metadata"].get("labels") or {}), SERVICE_NAME: shown["metadata"].get("name", "")}
        return {
            "apiVersion": self.kept_as,
            "kind": "EndpointSlice",
            "metadata": {**shown["metadata"], "labels": labels},
            "addressType": "IPv4",
            "endpoints": [
                _endpoint(address, is_ready=group == "addresses")
                for subset in subsets
                for group in ("addresses", "notReadyAddresses")
                for address in subset.get(group) or ()
            ],
            "ports": list(subsets[0].get("ports") or ()) if subsets else [],
        }


ENDPOINTS: Final = EndpointsForm(
    api_version="v1",
    kept_as="discovery.k8s.io/v1",
    resource="discovery.k8s.io/endpointslices",
    names={},
)


def _is_ready(endpoint: Mapping[str, Any]) -> bool:
    return (endpoint.get("conditions") or {}).get("ready") is not False


def _addresses(endpoint: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    more = {name: endpoint[name] for name in _OF_ADDRESSES if name in endpoint}
    for address in endpoint.get("addresses") or ():
        yield {"ip": address, **more}


def _endpoint(address: Mapping[str, Any], *, is_ready: bool) -> dict[str, Any]:
    more = {name: address[name] for name in _OF_ADDRESSES if name in address}
    return {"addresses": [address["ip"]], "conditions": {"ready": is_ready}, **more}

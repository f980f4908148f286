"""Kinds that are served under a second group, with other names for the same fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """How objects that are kept as one kind look as another: some fields have other names."""

    api_version: str
    stored_api_version: str
    """The apiVersion of what is kept."""
    stored_resource: str
    """The key of what is kept."""
    stored_field_names: Mapping[str, str]
    """By the name shown, the name kept."""

    def to_served(self, stored: Object) -> Object:
        """An object as clients of this form see it."""
        back = {ours: theirs for theirs, ours in self.stored_field_names.items()}
        renamed = {back.get(field, field): value for field, value in stored.items()}
        return {**renamed, "apiVersion": self.api_version}

    def to_stored(self, served: Object) -> Object:
        """An object as it is kept."""
        renamed = {self.stored_field_names.get(field, field): value for field, value in served.items()}
        return {**renamed, "apiVersion": self.stored_api_version}

    def stored_field_path(self, served_path: str) -> str:
        """The path kept of a field that a selector names."""
        first, dot, rest = served_path.partition(".")
        return f"{self.stored_field_names.get(first, first)}{dot}{rest}"


EVENTS_CONVERSION: Final = Conversion(
    api_version="events.k8s.io/v1",
    stored_api_version="v1",
    stored_resource="/events",
    stored_field_names={
        "regarding": "involvedObject",
        "note": "message",
        "reportingController": "reportingComponent",
        "deprecatedSource": "source",
        "deprecatedFirstTimestamp": "firstTimestamp",
        "deprecatedLastTimestamp": "lastTimestamp",
        "deprecatedCount": "count",
    },
)
"""Events of events.k8s.io are those of the core group."""


def convert_schema(openapi: Mapping[str, Any], conversion: Conversion) -> dict[str, Any]:
    """The schema of a form, made from that of the kind it stands for."""
    back = {ours: theirs for theirs, ours in conversion.stored_field_names.items()}
    properties = {back.get(field, field): schema for field, schema in openapi["properties"].items()}
    required = [back.get(field, field) for field in openapi.get("required", ())]
    return {**openapi, "properties": properties, "required": required}


SERVICE_NAME_LABEL: Final = "kubernetes.io/service-name"
MANAGED_BY_LABEL: Final = "endpointslice.kubernetes.io/managed-by"
_SLICE_ONLY_LABELS: Final = (SERVICE_NAME_LABEL, MANAGED_BY_LABEL, "service.kubernetes.io/headless")
_SLICE_ONLY_METADATA: Final = ("labels", "generation")
_ADDRESS_FIELDS: Final = ("hostname", "nodeName", "targetRef")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointsConversion(Conversion):
    """A slice of the same name, with its endpoints sorted by whether they are ready."""

    def to_served(self, stored: Object) -> Object:
        """The endpoints of a slice."""
        labels = {
            name: value
            for name, value in (stored["metadata"].get("labels") or {}).items()
            if name not in _SLICE_ONLY_LABELS
        }
        metadata = {name: value for name, value in stored["metadata"].items() if name not in _SLICE_ONLY_METADATA}
        if labels:
            metadata["labels"] = labels
        told: Object = {"apiVersion": self.api_version, "kind": "Endpoints", "metadata": metadata}
        endpoints = stored.get("endpoints") or ()
        subset = {
            "addresses": [each for one in endpoints if _is_endpoint_ready(one) for each in _endpoint_addresses(one)],
            "notReadyAddresses": [
                each for one in endpoints if not _is_endpoint_ready(one) for each in _endpoint_addresses(one)
            ],
            "ports": stored.get("ports") or [],
        }
        if endpoints:
            told["subsets"] = [{name: value for name, value in subset.items() if value}]
        return told

    def to_stored(self, served: Object) -> Object:
        """The slice of somebody's endpoints; all their subsets are taken to have the ports of the first."""
        subsets = served.get("subsets") or ()
        labels = {**(served["metadata"].get("labels") or {}), SERVICE_NAME_LABEL: served["metadata"].get("name", "")}
        return {
            "apiVersion": self.stored_api_version,
            "kind": "EndpointSlice",
            "metadata": {**served["metadata"], "labels": labels},
            "addressType": "IPv4",
            "endpoints": [
                _slice_endpoint(address, is_ready=group == "addresses")
                for subset in subsets
                for group in ("addresses", "notReadyAddresses")
                for address in subset.get(group) or ()
            ],
            "ports": list(subsets[0].get("ports") or ()) if subsets else [],
        }


ENDPOINTS_CONVERSION: Final = EndpointsConversion(
    api_version="v1",
    stored_api_version="discovery.k8s.io/v1",
    stored_resource="discovery.k8s.io/endpointslices",
    stored_field_names={},
)


def _is_endpoint_ready(endpoint: Mapping[str, Any]) -> bool:
    return (endpoint.get("conditions") or {}).get("ready") is not False


def _endpoint_addresses(endpoint: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    more = {name: endpoint[name] for name in _ADDRESS_FIELDS if name in endpoint}
    for address in endpoint.get("addresses") or ():
        yield {"ip": address, **more}


def _slice_endpoint(address: Mapping[str, Any], *, is_ready: bool) -> dict[str, Any]:
    more = {name: address[name] for name in _ADDRESS_FIELDS if name in address}
    return {"addresses": [address["ip"]], "conditions": {"ready": is_ready}, **more}

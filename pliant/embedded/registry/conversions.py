"""Kinds that are stored as another kind: Endpoints as EndpointSlices, events.k8s.io Events as core Events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindConversion:
    """Converts between the served kind and the stored kind; some fields have other names."""

    api_version: str
    stored_api_version: str
    stored_resource: str
    stored_field_names: Mapping[str, str]
    """Stored field name by served field name."""
    omitted_if_empty: frozenset[str] = frozenset()
    """Served fields that are left out if they are empty, although the stored kind has them."""

    def to_served(self, stored: Object) -> Object:
        served_names = {stored_name: served_name for served_name, stored_name in self.stored_field_names.items()}
        renamed = {served_names.get(field, field): value for field, value in stored.items()}
        for field in self.omitted_if_empty:
            if not renamed.get(field, True):
                del renamed[field]
        return {**renamed, "apiVersion": self.api_version}

    def to_stored(self, served: Object) -> Object:
        renamed = {self.stored_field_names.get(field, field): value for field, value in served.items()}
        return {**renamed, "apiVersion": self.stored_api_version}

    def stored_field_path(self, served_path: str) -> str:
        """Return the stored path of a field that a field selector names."""
        first, dot, rest = served_path.partition(".")
        return f"{self.stored_field_names.get(first, first)}{dot}{rest}"


EVENTS_CONVERSION: Final = KindConversion(
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
    omitted_if_empty=frozenset({"reportingController", "reportingInstance"}),
)


def to_served_schema(openapi: Mapping[str, Any], conversion: KindConversion) -> dict[str, Any]:
    served_names = {stored_name: served_name for served_name, stored_name in conversion.stored_field_names.items()}
    properties = {served_names.get(field, field): schema for field, schema in openapi["properties"].items()}
    required = [served_names.get(field, field) for field in openapi.get("required", ())]
    return {**openapi, "properties": properties, "required": required}


SERVICE_NAME_LABEL: Final = "kubernetes.io/service-name"
ENDPOINT_SLICE_MANAGER_LABEL: Final = "endpointslice.kubernetes.io/managed-by"
_SLICE_ONLY_LABELS: Final = (SERVICE_NAME_LABEL, ENDPOINT_SLICE_MANAGER_LABEL, "service.kubernetes.io/headless")
_SLICE_ONLY_METADATA: Final = ("labels", "generation")
_ADDRESS_FIELDS: Final = ("hostname", "nodeName", "targetRef")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointsConversion(KindConversion):
    """Converts an EndpointSlice of the same name; Endpoints list ready and not-ready addresses separately."""

    def to_served(self, stored: Object) -> Object:
        slice_labels = stored["metadata"].get("labels") or {}
        labels = {name: value for name, value in slice_labels.items() if name not in _SLICE_ONLY_LABELS}
        metadata = {name: value for name, value in stored["metadata"].items() if name not in _SLICE_ONLY_METADATA}
        if labels:
            metadata["labels"] = labels
        result: Object = {"apiVersion": self.api_version, "kind": "Endpoints", "metadata": metadata}
        endpoints = stored.get("endpoints") or ()
        ready = [each for each in endpoints if _is_endpoint_ready(each)]
        not_ready = [each for each in endpoints if not _is_endpoint_ready(each)]
        subset = {
            "addresses": [address for each in ready for address in _endpoint_addresses(each)],
            "notReadyAddresses": [address for each in not_ready for address in _endpoint_addresses(each)],
            "ports": stored.get("ports") or [],
        }
        if endpoints:
            result["subsets"] = [{name: value for name, value in subset.items() if value}]
        return result

    def to_stored(self, served: Object) -> Object:
        """Return the EndpointSlice; the ports of the first subset apply to all subsets."""
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
    fields = {name: endpoint[name] for name in _ADDRESS_FIELDS if name in endpoint}
    for address in endpoint.get("addresses") or ():
        yield {"ip": address, **fields}


def _slice_endpoint(address: Mapping[str, Any], *, is_ready: bool) -> dict[str, Any]:
    fields = {name: address[name] for name in _ADDRESS_FIELDS if name in address}
    return {"addresses": [address["ip"]], "conditions": {"ready": is_ready}, **fields}

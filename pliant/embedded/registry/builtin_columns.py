"""Table columns of built-in kinds other than pods, with the descriptions that Kubernetes gives them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pliant.embedded.registry.tables import (
    AGE_COLUMN,
    NAME_COLUMN,
    CellRenderer,
    TableColumn,
    field_cell,
    format_age,
    make_column,
)

Object = Mapping[str, Any]


def _get_section(obj: Object, name: str) -> Object:
    return obj.get(name) or {}


def _node_status(node: Object, now: datetime) -> str:
    ready = [c for c in _get_section(node, "status").get("conditions") or () if c.get("type") == "Ready"]
    words = [("Ready" if ready[0].get("status") == "True" else "NotReady") if ready else "Unknown"]
    if _get_section(node, "spec").get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(node: Object, now: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    roles = {label.removeprefix(prefix) for label in labels if label.startswith(prefix)} - {""}
    if role := labels.get("kubernetes.io/role"):
        roles.add(role)
    return ",".join(sorted(roles)) or "<none>"


def _node_address_cell(address_type: str) -> CellRenderer:
    def cell(node: Object, now: datetime) -> str:
        addresses = _get_section(node, "status").get("addresses") or ()
        return next((each["address"] for each in addresses if each.get("type") == address_type), "<none>")

    return cell


def _node_info_cell(field: str) -> CellRenderer:
    return field_cell(f"status.nodeInfo.{field}", "<unknown>")


def _service_ports(service: Object, now: datetime) -> str:
    ports = []
    for port in _get_section(service, "spec").get("ports") or ():
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port['port']}{node_port}/{port.get('protocol', 'TCP')}")
    return ",".join(ports) or "<none>"


def _service_external_ip(service: Object, now: datetime) -> str:
    spec = _get_section(service, "spec")
    if spec.get("type") == "ExternalName":
        return spec.get("externalName") or "<none>"
    addresses = list(spec.get("externalIPs") or ())
    if spec.get("type") == "LoadBalancer":
        ingress = _get_section(_get_section(service, "status"), "loadBalancer").get("ingress") or ()
        addresses = sorted({entry.get("ip") or entry.get("hostname") or "" for entry in ingress} - {""}) + addresses
        return ",".join(addresses) or "<pending>"
    return ",".join(addresses) or "<none>"


def _service_selector(service: Object, now: datetime) -> str:
    selector = _get_section(service, "spec").get("selector") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(selector.items())) or "<none>"


def _event_last_seen(event: Object, now: datetime) -> str:
    if event.get("series"):
        return format_age(event["series"].get("lastObservedTime"), now)
    return format_age(event.get("lastTimestamp") or _first_timestamp(event), now)


def _event_first_seen(event: Object, now: datetime) -> str:
    return format_age(_first_timestamp(event), now)


def _first_timestamp(event: Object) -> Any:
    return event.get("firstTimestamp") or event.get("eventTime")


def _event_object(event: Object, now: datetime) -> str:
    involved_object = _get_section(event, "involvedObject")
    kind, name = involved_object.get("kind", "").lower(), involved_object.get("name", "")
    return f"{kind}/{name}" if name else kind


def _event_source(event: Object, now: datetime) -> str:
    source = _get_section(event, "source")
    component = source.get("component") or event.get("reportingComponent") or ""
    instance = source.get("host") or event.get("reportingInstance")
    return f"{component}, {instance}" if instance else str(component)


def _event_message(event: Object, now: datetime) -> str:
    return (event.get("message") or "").strip()


def _event_count(event: Object, now: datetime) -> int:
    return int(_get_section(event, "series").get("count") or event.get("count") or 1)


def _data_count_cell(*fields: str) -> CellRenderer:
    return lambda obj, now: sum(len(obj.get(field) or ()) for field in fields)


_ACCESS_MODE_ABBREVIATIONS: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _access_modes(claim: Object, now: datetime) -> str:
    is_bound = _get_section(claim, "spec").get("volumeName")
    modes = (_get_section(claim, "status").get("accessModes") or ()) if is_bound else ()
    return ",".join(short for mode, short in _ACCESS_MODE_ABBREVIATIONS.items() if mode in modes)


def _join_first(values: list[str], empty: str) -> str:
    more = f" + {len(values) - 3} more..." if len(values) > 3 else ""
    return (",".join(values[:3]) + more) or empty


def _slice_ports(endpoint_slice: Object, now: datetime) -> str:
    return _join_first(
        [str(each.get("port", each.get("name", "*"))) for each in endpoint_slice.get("ports") or ()], "<unset>"
    )


def _slice_addresses(endpoint_slice: Object, now: datetime) -> str:
    endpoints = endpoint_slice.get("endpoints") or ()
    return _join_first([address for each in endpoints for address in each.get("addresses") or ()], "<unset>")


def _endpoints_cell(endpoint_slice: Object, now: datetime) -> str:
    no_port: list[dict[str, Any]] = [{}]
    ready_addresses = [
        f"{address}:{port['port']}" if port else address
        for each in endpoint_slice.get("endpoints") or ()
        if (each.get("conditions") or {}).get("ready") is not False
        for address in each.get("addresses") or ()
        for port in endpoint_slice.get("ports") or no_port
    ]
    return _join_first(ready_addresses, "<none>")


def _budget_cell(field: str) -> CellRenderer:
    def cell(budget: Object, now: datetime) -> str:
        value = (budget.get("spec") or {}).get(field)
        return "N/A" if value is None else str(value)

    return cell


CONFIG_MAP_COLUMNS: Final = (
    NAME_COLUMN,
    make_column("Data", _data_count_cell("data", "binaryData"), "Number of entries."),
    AGE_COLUMN,
)
SECRET_COLUMNS: Final = (
    NAME_COLUMN,
    make_column("Type", field_cell("type"), "Used to facilitate programmatic handling of secret data."),
    make_column("Data", _data_count_cell("data"), "Number of entries."),
    AGE_COLUMN,
)


def _claim_status_cell(claim: Mapping[str, Any], now: datetime) -> Any:
    is_terminating = claim["metadata"].get("deletionTimestamp")
    return "Terminating" if is_terminating else (claim.get("status") or {}).get("phase", "")


def _capacity_cell(claim: Mapping[str, Any], now: datetime) -> Any:
    if not (claim.get("spec") or {}).get("volumeName"):
        return ""
    return ((claim.get("status") or {}).get("capacity") or {}).get("storage", "0")


PERSISTENT_VOLUME_CLAIM_COLUMNS: Final = (
    NAME_COLUMN,
    make_column("Status", _claim_status_cell, "The current phase of PersistentVolumeClaim."),
    make_column("Volume", field_cell("spec.volumeName"), "The PersistentVolume backing this claim."),
    make_column("Capacity", _capacity_cell, "The actual resources of the underlying volume."),
    make_column("Access Modes", _access_modes, "The actual access modes the volume backing the PVC has."),
    make_column("StorageClass", field_cell("spec.storageClassName"), "StorageClass of the pvc"),
    make_column(
        "VolumeAttributesClass",
        field_cell("spec.volumeAttributesClassName", "<unset>"),
        "VolumeAttributesClass of the pvc",
    ),
    AGE_COLUMN,
    make_column(
        "VolumeMode", field_cell("spec.volumeMode"), "What type of volume is required by the claim.", wide=True
    ),
)
SERVICE_ACCOUNT_COLUMNS: Final = (NAME_COLUMN, AGE_COLUMN)
NAMESPACE_COLUMNS: Final = (
    NAME_COLUMN,
    make_column("Status", field_cell("status.phase"), "The status of the namespace"),
    AGE_COLUMN,
)
NODE_COLUMNS: Final = (
    NAME_COLUMN,
    make_column("Status", _node_status, "The status of the node"),
    make_column("Roles", _node_roles, "The roles of the node"),
    AGE_COLUMN,
    make_column("Version", field_cell("status.nodeInfo.kubeletVersion"), "Kubelet Version reported by the node."),
    make_column("Internal-IP", _node_address_cell("InternalIP"), "Address inside the cluster.", wide=True),
    make_column("External-IP", _node_address_cell("ExternalIP"), "Address outside the cluster.", wide=True),
    make_column("OS-Image", _node_info_cell("osImage"), "OS Image reported by the node.", wide=True),
    make_column("Kernel-Version", _node_info_cell("kernelVersion"), "Kernel Version reported by the node.", wide=True),
    make_column(
        "Container-Runtime", _node_info_cell("containerRuntimeVersion"), "ContainerRuntime Version.", wide=True
    ),
)
SERVICE_COLUMNS: Final = (
    NAME_COLUMN,
    make_column("Type", field_cell("spec.type"), "type determines how the Service is exposed."),
    make_column("Cluster-IP", field_cell("spec.clusterIP", "<none>"), "clusterIP is the IP address of the service."),
    make_column("External-IP", _service_external_ip, "IP addresses outside the cluster that accept traffic."),
    make_column("Port(s)", _service_ports, "The list of ports that are exposed by this service."),
    AGE_COLUMN,
    make_column("Selector", _service_selector, "Route service traffic to pods with matching labels.", wide=True),
)
EVENT_COLUMNS: Final = (
    make_column("Last Seen", _event_last_seen, "Time since the most recent occurrence of this event was recorded."),
    make_column("Type", field_cell("type"), "Type of this event (Normal, Warning)."),
    make_column("Reason", field_cell("reason"), "Short, machine understandable reason of this event."),
    make_column("Object", _event_object, "The object that this event is about."),
    make_column("Subobject", field_cell("involvedObject.fieldPath"), "The field of the object.", wide=True),
    make_column("Source", _event_source, "The component reporting this event.", wide=True),
    make_column("Message", _event_message, "A human-readable description of the status of this operation."),
    make_column("First Seen", _event_first_seen, "Time since the event was first recorded.", wide=True),
    make_column("Count", _event_count, "The number of times this event has occurred.", wide=True),
    TableColumn(
        name="Name", format="name", priority=1, description=NAME_COLUMN.description, cell=field_cell("metadata.name")
    ),
)
LEASE_COLUMNS: Final = (
    NAME_COLUMN,
    make_column("Holder", field_cell("spec.holderIdentity"), "Holder of the lease."),
    AGE_COLUMN,
)
PRIORITY_CLASS_COLUMNS: Final = (
    NAME_COLUMN,
    make_column(
        "Value", field_cell("value", 0), "The priority that pods of this class receive.", column_type="integer"
    ),
    make_column(
        "Global-Default",
        field_cell("globalDefault", False),
        "Whether it is the default for pods without a class.",
        column_type="boolean",
    ),
    AGE_COLUMN,
    make_column(
        "PreemptionPolicy", field_cell("preemptionPolicy"), "The Policy for preempting pods with lower priority."
    ),
)
ENDPOINT_SLICE_COLUMNS: Final = (
    NAME_COLUMN,
    make_column("AddressType", field_cell("addressType"), "The type of address carried by this EndpointSlice."),
    make_column("Ports", _slice_ports, "The list of network ports exposed by each endpoint in this slice."),
    make_column("Endpoints", _slice_addresses, "The list of endpoints in this slice."),
    AGE_COLUMN,
)
ENDPOINTS_COLUMNS: Final = (
    NAME_COLUMN,
    make_column("Endpoints", _endpoints_cell, "Ready addresses and ports."),
    AGE_COLUMN,
)
DISRUPTION_BUDGET_COLUMNS: Final = (
    NAME_COLUMN,
    make_column("Min Available", _budget_cell("minAvailable"), "The minimum number of pods that must be available."),
    make_column(
        "Max Unavailable", _budget_cell("maxUnavailable"), "The maximum number of pods that may be unavailable."
    ),
    make_column(
        "Allowed Disruptions",
        field_cell("status.disruptionsAllowed", 0),
        "Calculated number of pods that may be disrupted at this time.",
        column_type="integer",
    ),
    AGE_COLUMN,
)
CRD_COLUMNS: Final = (
    NAME_COLUMN,
    make_column("Created At", field_cell("metadata.creationTimestamp", None), "Time of creation.", column_type="date"),
)

"""The columns of built-in kinds other than pods, as kubectl users know them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pliant.embedded.registry.table_columns import (
    AGE_COLUMN,
    CREATED_COLUMN,
    NAME_COLUMN,
    CellRenderer,
    TableColumn,
    format_age,
)

Object = Mapping[str, Any]


def _get_section(obj: Object, name: str) -> Object:
    return obj.get(name) or {}


def _column(
    name: str, cell: CellRenderer, description: str, *, wide: bool = False, column_type: str = "string"
) -> TableColumn:
    return TableColumn(name=name, type=column_type, description=description, priority=int(wide), cell=cell)


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
        found = [
            a["address"] for a in _get_section(node, "status").get("addresses") or () if a.get("type") == address_type
        ]
        return found[0] if found else "<none>"

    return cell


def _node_info_cell(field: str, default: str = "<unknown>") -> CellRenderer:
    return lambda node, now: _get_section(_get_section(node, "status"), "nodeInfo").get(field) or default


def _service_ports(service: Object, now: datetime) -> str:
    shown = []
    for port in _get_section(service, "spec").get("ports") or ():
        outside = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port['port']}{outside}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or "<none>"


def _service_external_ip(service: Object, now: datetime) -> str:
    spec = _get_section(service, "spec")
    if spec.get("type") == "ExternalName":
        return spec.get("externalName") or "<none>"
    addresses = list(spec.get("externalIPs") or ())
    if spec.get("type") == "LoadBalancer":
        ingress = _get_section(_get_section(service, "status"), "loadBalancer").get("ingress") or ()
        addresses = [entry.get("ip") or entry.get("hostname", "") for entry in ingress] + addresses
        return ",".join(addresses) or "<pending>"
    return ",".join(addresses) or "<none>"


def _service_selector(service: Object, now: datetime) -> str:
    selector = _get_section(service, "spec").get("selector") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(selector.items())) or "<none>"


def _event_last_seen(event: Object, now: datetime) -> str:
    series = _get_section(event, "series").get("lastObservedTime")
    return format_age(series or event.get("lastTimestamp") or event.get("eventTime") or _event_first_seen(event), now)


def _event_first_seen(event: Object) -> Any:
    return event.get("firstTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")


def _event_object(event: Object, now: datetime) -> str:
    about = _get_section(event, "involvedObject")
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _event_source(event: Object, now: datetime) -> str:
    source = _get_section(event, "source")
    component = source.get("component") or event.get("reportingComponent") or ""
    return f"{component}, {source['host']}" if source.get("host") else str(component)


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
    return ",".join(
        _ACCESS_MODE_ABBREVIATIONS.get(mode, mode) for mode in _get_section(claim, "status").get("accessModes") or ()
    )


def _claim_capacity(claim: Object, now: datetime) -> str:
    return str((_get_section(claim, "status").get("capacity") or {}).get("storage", ""))


CONFIG_MAP: Final = (
    NAME_COLUMN,
    _column("Data", _data_count_cell("data", "binaryData"), "Number of entries.", column_type="integer"),
    AGE_COLUMN,
)
SECRET: Final = (
    NAME_COLUMN,
    _column("Type", lambda secret, now: secret.get("type", ""), "What the secret is for."),
    _column("Data", _data_count_cell("data"), "Number of entries.", column_type="integer"),
    AGE_COLUMN,
)
PERSISTENT_VOLUME_CLAIM: Final = (
    NAME_COLUMN,
    _column("Status", lambda claim, now: _get_section(claim, "status").get("phase", ""), "Pending or Bound."),
    _column("Volume", lambda claim, now: _get_section(claim, "spec").get("volumeName", ""), "What it is bound to."),
    _column("Capacity", _claim_capacity, "How much there is."),
    _column("Access Modes", _access_modes, "Who may use it, and how."),
    _column("StorageClass", lambda claim, now: _get_section(claim, "spec").get("storageClassName", ""), "Its class."),
    _column(
        "VolumeAttributesClass",
        lambda claim, now: _get_section(claim, "spec").get("volumeAttributesClassName") or "<unset>",
        "Its class of attributes.",
    ),
    AGE_COLUMN,
    _column("VolumeMode", lambda claim, now: _get_section(claim, "spec").get("volumeMode", ""), "Its form.", wide=True),
)
SERVICE_ACCOUNT: Final = (
    NAME_COLUMN,
    _column("Secrets", _data_count_cell("secrets"), "Number of secrets.", column_type="integer"),
    AGE_COLUMN,
)
NAMESPACE: Final = (
    NAME_COLUMN,
    _column("Status", lambda ns, now: _get_section(ns, "status").get("phase", ""), "Active or Terminating."),
    AGE_COLUMN,
)
NODE: Final = (
    NAME_COLUMN,
    _column("Status", _node_status, "Whether the node takes pods."),
    _column("Roles", _node_roles, "Roles from its labels."),
    AGE_COLUMN,
    _column("Version", _node_info_cell("kubeletVersion", ""), "Version of its kubelet."),
    _column("Internal-IP", _node_address_cell("InternalIP"), "Address inside the cluster.", wide=True),
    _column("External-IP", _node_address_cell("ExternalIP"), "Address outside the cluster.", wide=True),
    _column("OS-Image", _node_info_cell("osImage"), "Operating system.", wide=True),
    _column("Kernel-Version", _node_info_cell("kernelVersion"), "Kernel.", wide=True),
    _column("Container-Runtime", _node_info_cell("containerRuntimeVersion"), "What runs the pods.", wide=True),
)
SERVICE: Final = (
    NAME_COLUMN,
    _column("Type", lambda service, now: _get_section(service, "spec").get("type", ""), "How the service is reached."),
    _column(
        "Cluster-IP",
        lambda service, now: _get_section(service, "spec").get("clusterIP") or "<none>",
        "Address inside the cluster.",
    ),
    _column("External-IP", _service_external_ip, "Address outside the cluster."),
    _column("Port(s)", _service_ports, "Ports and protocols."),
    AGE_COLUMN,
    _column("Selector", _service_selector, "Labels of the pods behind it.", wide=True),
)
EVENT: Final = (
    _column("Last Seen", _event_last_seen, "Time since it happened last."),
    _column("Type", lambda event, now: event.get("type", ""), "Normal or Warning."),
    _column("Reason", lambda event, now: event.get("reason", ""), "Why, in one word."),
    _column("Object", _event_object, "What it is about."),
    _column(
        "Subobject",
        lambda event, now: _get_section(event, "involvedObject").get("fieldPath", ""),
        "Part of the object.",
        wide=True,
    ),
    _column("Source", _event_source, "Who tells it.", wide=True),
    _column("Message", lambda event, now: (event.get("message") or "").strip(), "What happened."),
    _column(
        "First Seen", lambda event, now: format_age(_event_first_seen(event), now), "Time since it began.", wide=True
    ),
    _column("Count", _event_count, "How often.", wide=True, column_type="integer"),
    TableColumn(
        name="Name",
        format="name",
        priority=1,
        description="Name of the event.",
        cell=lambda event, now: event["metadata"]["name"],
    ),
)
LEASE: Final = (
    NAME_COLUMN,
    _column("Holder", lambda lease, now: _get_section(lease, "spec").get("holderIdentity", ""), "Who holds it."),
    AGE_COLUMN,
)
PRIORITY_CLASS: Final = (
    NAME_COLUMN,
    _column("Value", lambda pc, now: pc.get("value", 0), "How important its pods are.", column_type="integer"),
    _column(
        "Global-Default", lambda pc, now: bool(pc.get("globalDefault")), "Whether it is for all pods that name none."
    ),
    AGE_COLUMN,
    _column("PreemptionPolicy", lambda pc, now: pc.get("preemptionPolicy", ""), "Whether they make others leave."),
)
CRD: Final = (
    NAME_COLUMN,
    TableColumn(
        name="Created At",
        type="date",
        description="When the definition was created.",
        cell=lambda crd, now: crd["metadata"].get("creationTimestamp"),
    ),
)
DEFAULT_COLUMNS: Final = (NAME_COLUMN, CREATED_COLUMN)

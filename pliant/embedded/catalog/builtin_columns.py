"""The columns of built-in kinds other than pods, as kubectl users know them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pliant.embedded.catalog.columns import AGE, CREATED, NAME, Cell, Column
from pliant.embedded.catalog.durations import age

Object = Mapping[str, Any]


def _part(obj: Object, name: str) -> Object:
    return obj.get(name) or {}


def _column(name: str, cell: Cell, description: str, *, wide: bool = False, type: str = "string") -> Column:  # noqa: A002
    return Column(name=name, type=type, description=description, priority=int(wide), cell=cell)


def _node_status(node: Object, now: datetime) -> str:
    ready = [c for c in _part(node, "status").get("conditions") or () if c.get("type") == "Ready"]
    words = [("Ready" if ready[0].get("status") == "True" else "NotReady") if ready else "Unknown"]
    if _part(node, "spec").get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(node: Object, now: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    roles = {label.removeprefix(prefix) for label in labels if label.startswith(prefix)} - {""}
    if role := labels.get("kubernetes.io/role"):
        roles.add(role)
    return ",".join(sorted(roles)) or "<none>"


def _node_address(kind: str) -> Cell:
    def cell(node: Object, now: datetime) -> str:
        found = [a["address"] for a in _part(node, "status").get("addresses") or () if a.get("type") == kind]
        return found[0] if found else "<none>"

    return cell


def _node_info(field: str, absent: str = "<unknown>") -> Cell:
    return lambda node, now: _part(_part(node, "status"), "nodeInfo").get(field) or absent


def _service_ports(service: Object, now: datetime) -> str:
    shown = []
    for port in _part(service, "spec").get("ports") or ():
        outside = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port['port']}{outside}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or "<none>"


def _service_external(service: Object, now: datetime) -> str:
    spec = _part(service, "spec")
    if spec.get("type") == "ExternalName":
        return spec.get("externalName") or "<none>"
    addresses = list(spec.get("externalIPs") or ())
    if spec.get("type") == "LoadBalancer":
        ingress = _part(_part(service, "status"), "loadBalancer").get("ingress") or ()
        addresses = [entry.get("ip") or entry.get("hostname", "") for entry in ingress] + addresses
        return ",".join(addresses) or "<pending>"
    return ",".join(addresses) or "<none>"


def _selector(service: Object, now: datetime) -> str:
    selector = _part(service, "spec").get("selector") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(selector.items())) or "<none>"


def _event_last_seen(event: Object, now: datetime) -> str:
    series = _part(event, "series").get("lastObservedTime")
    return age(series or event.get("lastTimestamp") or event.get("eventTime") or _event_start(event), now)


def _event_start(event: Object) -> Any:
    return event.get("firstTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")


def _event_object(event: Object, now: datetime) -> str:
    about = _part(event, "involvedObject")
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _event_source(event: Object, now: datetime) -> str:
    source = _part(event, "source")
    component = source.get("component") or event.get("reportingComponent") or ""
    return f"{component}, {source['host']}" if source.get("host") else str(component)


def _event_count(event: Object, now: datetime) -> int:
    return int(_part(event, "series").get("count") or event.get("count") or 1)


def _data_count(*fields: str) -> Cell:
    return lambda obj, now: sum(len(obj.get(field) or ()) for field in fields)


_SHORT_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _access_modes(claim: Object, now: datetime) -> str:
    return ",".join(_SHORT_MODES.get(mode, mode) for mode in _part(claim, "status").get("accessModes") or ())


def _claimed_storage(claim: Object, now: datetime) -> str:
    return str((_part(claim, "status").get("capacity") or {}).get("storage", ""))


CONFIG_MAP: Final = (
    NAME,
    _column("Data", _data_count("data", "binaryData"), "Number of entries.", type="integer"),
    AGE,
)
SECRET: Final = (
    NAME,
    _column("Type", lambda secret, now: secret.get("type", ""), "What the secret is for."),
    _column("Data", _data_count("data"), "Number of entries.", type="integer"),
    AGE,
)
CLAIM: Final = (
    NAME,
    _column("Status", lambda claim, now: _part(claim, "status").get("phase", ""), "Pending or Bound."),
    _column("Volume", lambda claim, now: _part(claim, "spec").get("volumeName", ""), "What it is bound to."),
    _column("Capacity", _claimed_storage, "How much there is."),
    _column("Access Modes", _access_modes, "Who may use it, and how."),
    _column("StorageClass", lambda claim, now: _part(claim, "spec").get("storageClassName", ""), "Its class."),
    _column(
        "VolumeAttributesClass",
        lambda claim, now: _part(claim, "spec").get("volumeAttributesClassName") or "<unset>",
        "Its class of attributes.",
    ),
    AGE,
    _column("VolumeMode", lambda claim, now: _part(claim, "spec").get("volumeMode", ""), "Its form.", wide=True),
)
SERVICE_ACCOUNT: Final = (
    NAME,
    _column("Secrets", _data_count("secrets"), "Number of secrets.", type="integer"),
    AGE,
)
NAMESPACE: Final = (
    NAME,
    _column("Status", lambda ns, now: _part(ns, "status").get("phase", ""), "Active or Terminating."),
    AGE,
)
NODE: Final = (
    NAME,
    _column("Status", _node_status, "Whether the node takes pods."),
    _column("Roles", _node_roles, "Roles from its labels."),
    AGE,
    _column("Version", _node_info("kubeletVersion", ""), "Version of its kubelet."),
    _column("Internal-IP", _node_address("InternalIP"), "Address inside the cluster.", wide=True),
    _column("External-IP", _node_address("ExternalIP"), "Address outside the cluster.", wide=True),
    _column("OS-Image", _node_info("osImage"), "Operating system.", wide=True),
    _column("Kernel-Version", _node_info("kernelVersion"), "Kernel.", wide=True),
    _column("Container-Runtime", _node_info("containerRuntimeVersion"), "What runs the pods.", wide=True),
)
SERVICE: Final = (
    NAME,
    _column("Type", lambda service, now: _part(service, "spec").get("type", ""), "How the service is reached."),
    _column(
        "Cluster-IP",
        lambda service, now: _part(service, "spec").get("clusterIP") or "<none>",
        "Address inside the cluster.",
    ),
    _column("External-IP", _service_external, "Address outside the cluster."),
    _column("Port(s)", _service_ports, "Ports and protocols."),
    AGE,
    _column("Selector", _selector, "Labels of the pods behind it.", wide=True),
)
EVENT: Final = (
    _column("Last Seen", _event_last_seen, "Time since it happened last."),
    _column("Type", lambda event, now: event.get("type", ""), "Normal or Warning."),
    _column("Reason", lambda event, now: event.get("reason", ""), "Why, in one word."),
    _column("Object", _event_object, "What it is about."),
    _column(
        "Subobject",
        lambda event, now: _part(event, "involvedObject").get("fieldPath", ""),
        "Part of the object.",
        wide=True,
    ),
    _column("Source", _event_source, "Who tells it.", wide=True),
    _column("Message", lambda event, now: (event.get("message") or "").strip(), "What happened."),
    _column("First Seen", lambda event, now: age(_event_start(event), now), "Time since it began.", wide=True),
    _column("Count", _event_count, "How often.", wide=True, type="integer"),
    Column(
        name="Name",
        format="name",
        priority=1,
        description="Name of the event.",
        cell=lambda event, now: event["metadata"]["name"],
    ),
)
LEASE: Final = (
    NAME,
    _column("Holder", lambda lease, now: _part(lease, "spec").get("holderIdentity", ""), "Who holds it."),
    AGE,
)
PRIORITY_CLASS: Final = (
    NAME,
    _column("Value", lambda pc, now: pc.get("value", 0), "How important its pods are.", type="integer"),
    _column(
        "Global-Default",
        lambda pc, now: bool(pc.get("globalDefault")),
        "Whether it is for all pods that name none.",
    ),
    AGE,
    _column("PreemptionPolicy", lambda pc, now: pc.get("preemptionPolicy", ""), "Whether they make others leave."),
)
CRD: Final = (
    NAME,
    Column(
        name="Created At",
        type="date",
        description="When the definition was created.",
        cell=lambda crd, now: crd["metadata"].get("creationTimestamp"),
    ),
)
GENERIC: Final = (NAME, CREATED)

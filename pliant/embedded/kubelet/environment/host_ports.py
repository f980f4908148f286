"""The ports that hostNetwork pods declare: all nodes of the cluster are on one machine and share its network."""

from __future__ import annotations

from pliant.embedded.kubelet.environment.variables import PodObject

PORT_CONFLICT_REASON = "HostPortConflict"


class HostPortRegistry:
    def __init__(self) -> None:
        self._ports: dict[str, tuple[str, set[int]]] = {}
        """Name and declared ports of each running hostNetwork pod, by uid."""

    def register(self, pod: PodObject) -> list[str]:
        """Add a pod before its containers start; return a warning for each port that another pod declares, too."""
        meta, ports = pod["metadata"], _declared_ports(pod)
        warnings = [
            f"port {port} is also a port of the hostNetwork pod {other}: all nodes of this cluster share one network, "
            "and only one program can listen on the port. Use another port, or remove hostNetwork"
            for other, others_ports in self._ports.values()
            for port in sorted(ports & others_ports)
        ]
        if ports:
            self._ports[meta["uid"]] = (f"{meta['namespace']}/{meta['name']}", ports)
        return warnings

    def release(self, pod_uid: str) -> None:
        self._ports.pop(pod_uid, None)


def _declared_ports(pod: PodObject) -> set[int]:
    spec = pod["spec"]
    if not spec.get("hostNetwork"):
        return set()
    declared = (port for container in spec["containers"] for port in container.get("ports") or ())
    return {int(port.get("hostPort") or port["containerPort"]) for port in declared}

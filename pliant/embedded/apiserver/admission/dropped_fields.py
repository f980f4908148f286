"""Fields of pods that kube-apiserver drops, because their features are off by default."""

from __future__ import annotations

from collections.abc import Iterator

from pliant.embedded.storage.stored_objects import Object


def drop_disabled_fields(spec: Object) -> None:
    """Remove the fields of features that are off from the spec of a pod or a template, in place."""
    spec.pop("schedulingGroup", None)
    for container in _iterate_containers(spec):
        lifecycle = container.get("lifecycle")
        if lifecycle and "stopSignal" in lifecycle:
            del lifecycle["stopSignal"]
            if not lifecycle:
                del container["lifecycle"]
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            source.pop("clusterTrustBundle", None)
            source.pop("podCertificate", None)


def _iterate_containers(spec: Object) -> Iterator[Object]:
    for group in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(group) or ()

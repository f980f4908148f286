"""The pod subresource ephemeralcontainers, by which `kubectl debug` adds containers to a pod that runs."""

from __future__ import annotations

from typing import Any

from pliant.embedded.apiserver.admission.validation.pods.ephemeral_containers import FORBIDDEN_FIELDS
from pliant.embedded.apiserver.handlers.write_checks import check_and_prune, validate_write_options
from pliant.embedded.apiserver.handlers.writes import ObjectWriter
from pliant.embedded.apiserver.http.request_body import decode_object_body
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.http.responses import write_response
from pliant.embedded.apiserver.patch.patches import apply_patch, read_patch
from pliant.embedded.storage.stored_objects import Object
from pliant.kube.transport.base import Reply

_KEPT_METADATA = ("generateName", "resourceVersion", "uid", "deletionGracePeriodSeconds")
"""Fields of the metadata in the request that are compared with those of the pod, or written."""


async def update_ephemeral_containers(writer: ObjectWriter, info: RequestInfo) -> Reply:
    """Take the ephemeral containers of the pod in the request; its other fields are ignored, as on Kubernetes."""
    validate_write_options(info)
    is_patch = info.request.method == "PATCH"
    media, body = read_patch(info) if is_patch else ("", decode_object_body(info.request))
    warnings = [] if is_patch else _check_and_prune(info, body)

    def with_new_containers(old: Object) -> Object:
        new = apply_patch(media, old, body) if is_patch else body
        if is_patch:
            warnings[:] = _check_and_prune(info, new)
        metadata = new["metadata"]
        kept = {field: metadata[field] for field in _KEPT_METADATA if metadata.get(field) is not None}
        containers = (new.get("spec") or {}).get("ephemeralContainers") or []
        spec = {name: value for name, value in old["spec"].items() if name != "ephemeralContainers"}
        return {
            **old,
            "metadata": {**old["metadata"], "generateName": "", "resourceVersion": "", **kept},
            "spec": {**spec, "ephemeralContainers": containers} if containers else spec,
        }

    record = await writer.update_by_function(
        info, with_new_containers, allow_missing_resource_version=True, warnings=warnings
    )
    return write_response(info.kind, record, warnings)


def _check_and_prune(info: RequestInfo, obj: Object) -> list[str]:
    """Check and prune a pod, but keep empty lists and maps where ephemeral containers must not have any."""
    empty_fields = [_find_empty_fields(each) for each in _list_containers(obj)]
    warnings = check_and_prune(info, obj)
    for container, fields in zip(_list_containers(obj), empty_fields, strict=True):
        container |= fields
    return warnings


def _list_containers(obj: Any) -> list[Any]:
    spec = obj.get("spec") if isinstance(obj, dict) else None
    containers = spec.get("ephemeralContainers") if isinstance(spec, dict) else None
    return containers if isinstance(containers, list) else []


def _find_empty_fields(container: Any) -> Object:
    if not isinstance(container, dict):
        return {}
    fields = {name: value for name, value in container.items() if value == [] and name in FORBIDDEN_FIELDS}
    resources = container.get("resources")
    if isinstance(resources, dict) and resources and all(value in ([], {}) for value in resources.values()):
        fields["resources"] = dict(resources)
    return fields

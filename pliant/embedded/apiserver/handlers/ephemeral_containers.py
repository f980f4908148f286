"""The pod subresource ephemeralcontainers, by which `kubectl debug` adds containers to a pod that runs."""

from __future__ import annotations

from pliant.embedded.apiserver.handlers.write_checks import check_and_prune, validate_write_options
from pliant.embedded.apiserver.handlers.writes import ObjectWriter
from pliant.embedded.apiserver.http.request_body import decode_object_body
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.http.responses import write_response
from pliant.embedded.apiserver.patch.patches import apply_patch, read_patch
from pliant.embedded.storage.stored_objects import Object
from pliant.kube.transport.base import Reply


async def update_ephemeral_containers(writer: ObjectWriter, info: RequestInfo) -> Reply:
    """Take the ephemeral containers of the pod in the request; its other fields are ignored, as on Kubernetes."""
    validate_write_options(info)
    is_patch = info.request.method == "PATCH"
    media, body = read_patch(info) if is_patch else ("", decode_object_body(info.request))
    warnings = [] if is_patch else check_and_prune(info, body)

    def with_new_containers(old: Object) -> Object:
        new = apply_patch(media, old, body) if is_patch else body
        if is_patch:
            warnings[:] = check_and_prune(info, new)
        metadata = new["metadata"]
        expected = {field: metadata[field] for field in ("resourceVersion", "uid") if metadata.get(field)}
        containers = (new.get("spec") or {}).get("ephemeralContainers") or []
        spec = {name: value for name, value in old["spec"].items() if name != "ephemeralContainers"}
        return {
            **old,
            "metadata": {**old["metadata"], "resourceVersion": "", **expected},
            "spec": {**spec, "ephemeralContainers": containers} if containers else spec,
        }

    record = await writer.update_by_function(
        info, with_new_containers, allow_missing_resource_version=True, warnings=warnings
    )
    return write_response(info.kind, record, warnings)

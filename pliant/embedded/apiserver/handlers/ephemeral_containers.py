"""The pod subresource ephemeralcontainers, by which `kubectl debug` adds containers to a pod that runs."""

from __future__ import annotations

from pliant.embedded.apiserver.handlers.writes import ObjectWriter
from pliant.embedded.apiserver.http.errors import bad_request, require_type
from pliant.embedded.apiserver.http.request_body import decode_object_body, object_field
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.http.responses import json_response
from pliant.embedded.apiserver.patch.patches import apply_patch, read_patch
from pliant.embedded.storage.stored_objects import Object
from pliant.kube.transport.base import Reply


async def update_ephemeral_containers(writer: ObjectWriter, info: RequestInfo) -> Reply:
    """Take the ephemeral containers of the pod in the request; its other fields are ignored, as on Kubernetes."""
    is_patch = info.request.method == "PATCH"
    media, body = read_patch(info) if is_patch else ("", decode_object_body(info.request))

    def with_new_containers(old: Object) -> Object:
        new = apply_patch(media, old, body) if is_patch else body
        require_type(new, info.kind.api_version, info.kind.kind)
        metadata, spec = object_field(new, "metadata"), object_field(new, "spec")
        if metadata.get("name") not in (None, "", info.name):
            message = f"the name of the object ({metadata['name']}) does not match the name on the URL ({info.name})"
            raise bad_request(message)
        changed = {field: metadata[field] for field in ("resourceVersion", "uid") if metadata.get(field)}
        updated = {
            **old,
            "metadata": {**old["metadata"], "resourceVersion": "", **changed},
            "spec": {**old["spec"], "ephemeralContainers": spec.get("ephemeralContainers") or []},
        }
        if info.kind.schema is not None:
            info.kind.schema.prune(updated)
        return updated

    record = await writer.update_by_function(info, with_new_containers, allow_missing_resource_version=True)
    return json_response(info.kind.to_served(record.decode()))

"""The last accepted spec of a job, which stays in effect while an edit of the job is rejected."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from pliant.errors import InvalidSpec
from pliant.frontends.frontend import Frontend
from pliant.frontends.spec.metadata import is_end_annotation
from pliant.frontends.spec.pod_templates import suspend_advice
from pliant.frontends.status.engine_state import raw_status
from pliant.frontends.status.rejection import find_rejection
from pliant.model.accepted_spec import AcceptedSpec, relevant_annotations
from pliant.model.actions import CreateConfigMap
from pliant.model.job import Job
from pliant.model.labels import MANAGED_BY_VALUE, job_labels, owner_references
from pliant.model.state import EngineState

MAX_STORED_CHARS = 32 * 1024
"""The limit of a spec in the status, which is read and written often; a longer one is stored in a ConfigMap."""
MAX_SPEC_BYTES = 3 * 1024 * 1024
"""The limit of a spec; etcd accepts objects of 1.5 MiB."""
SPEC_DATA_KEY = "spec"
_OTHER_FIELDS = frozenset({"apiVersion", "kind", "metadata", "status"})


class ParsedJob(NamedTuple):
    job: Job
    state: EngineState | None
    rejection: InvalidSpec | None = None
    """Why the spec was rejected; then the job is that of the last accepted spec."""


def is_managed_externally(job: Job) -> bool:
    return job.managed_by not in ("", MANAGED_BY_VALUE)


def managed_by_rejection(frontend: Frontend) -> InvalidSpec:
    """Return the error for an edit that gives a job with pods to another controller."""
    path = frontend.run_policy_path
    return InvalidSpec(f"{path}.managedBy", f"cannot change {suspend_advice(path)}")


def parse_stored_job(frontend: Frontend, raw: Mapping[str, Any]) -> ParsedJob:
    """Parse an object of the API server; raise InvalidSpec if it is invalid and its status holds no accepted spec."""
    state = frontend.load_state(raw)
    accepted = state.accepted_spec if state is not None else None
    try:
        parsed = ParsedJob(frontend.parse(raw, state), state)
        rejection = reported_rejection(frontend, raw)
    except InvalidSpec as error:
        if accepted is None:
            raise
        return parse_accepted_spec(frontend, raw, state, accepted, error)
    if accepted is None or rejection is None:
        return parsed
    return parse_accepted_spec(frontend, raw, state, accepted, rejection)


def reported_rejection(frontend: Frontend, raw: Mapping[str, Any]) -> InvalidSpec | None:
    """Return why the operator rejected the current spec: it may know more than the spec, for example the pods."""
    condition = find_rejection(raw_status(raw), frontend.conditions_path)
    if not condition or condition.get("observedGeneration") != raw["metadata"].get("generation", 0):
        return None
    field, _, problem = str(condition.get("message", "")).partition(": ")
    return InvalidSpec(field, problem)


def parse_accepted_spec(
    frontend: Frontend,
    raw: Mapping[str, Any],
    state: EngineState | None,
    accepted: AcceptedSpec,
    rejection: InvalidSpec,
) -> ParsedJob:
    """Return the job of the accepted spec; raise the rejection if that spec is not valid either.

    Of the rejected edit, only `suspend` and the annotations that end a job take effect.
    """
    try:
        restored = _restore_spec(raw, accepted, frontend.run_policy_path)
    except InvalidSpec:
        raise rejection from None
    with suppress(InvalidSpec):  # the annotations may be what is invalid
        current = {**restored, "metadata": {**raw["metadata"], "generation": accepted.generation}}
        return ParsedJob(frontend.parse(current, state), state, rejection)
    try:
        return ParsedJob(frontend.parse(restored, state), state, rejection)
    except InvalidSpec:
        raise rejection from None


def accept_spec(raw: Mapping[str, Any], state: EngineState | None) -> AcceptedSpec:
    """Return the valid spec of an object in its stored form."""
    metadata = raw["metadata"]
    before = state.accepted_spec if state is not None else None
    # Other controllers may write annotations often: a new annotation alone is no reason to write the status.
    if before is not None and 0 < before.generation == metadata.get("generation"):
        return before
    fields = {name: value for name, value in raw.items() if name not in _OTHER_FIELDS}
    # In the order of the object: the order of groups may determine ranks.
    data = base64.b85encode(zlib.compress(msgspec.json.encode(fields), 9)).decode()
    annotations = relevant_annotations(metadata)
    return AcceptedSpec(generation=metadata.get("generation", 0), annotations=annotations, data=data)


def move_to_config_map(accepted: AcceptedSpec, job: Job) -> tuple[AcceptedSpec, CreateConfigMap]:
    """Return a long spec without its data, and the ConfigMap that holds the data."""
    name = f"{job.key.name}-spec-{_content_hash(accepted.data)}"
    metadata = {
        "name": name,
        "namespace": job.key.namespace,
        "labels": job_labels(job),
        "ownerReferences": owner_references(job.owner),
    }
    data = {SPEC_DATA_KEY: accepted.data}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "immutable": True, "data": data}
    return replace(accepted, data="", config_map=name), CreateConfigMap(name=name, manifest=manifest)


def is_data_of(accepted: AcceptedSpec, data: str) -> bool:
    """Return whether this is the spec that the operator stored in the ConfigMap, whose name contains the hash."""
    return accepted.config_map.rpartition("-")[2] == _content_hash(data)


def _content_hash(data: str) -> str:
    return blake2b(data.encode(), digest_size=16).hexdigest()


def _restore_spec(raw: Mapping[str, Any], accepted: AcceptedSpec, run_policy_path: str) -> dict[str, Any]:
    """Return the object as it was accepted, with its current name, state, `suspend` and end annotations."""
    try:
        fields = msgspec.json.decode(_decompress(base64.b85decode(accepted.data)), type=dict[str, Any])
    except (ValueError, zlib.error) as error:
        raise InvalidSpec("status.pliant.acceptedSpec", f"cannot be decoded: {error}") from None
    current = raw["metadata"].get("annotations") or {}
    ending = {name: value for name, value in current.items() if is_end_annotation(name)}
    kept = {name: value for name, value in accepted.annotations.items() if not is_end_annotation(name)}
    metadata = {**raw["metadata"], "generation": accepted.generation, "annotations": {**kept, **ending}}
    restored = {**{name: raw[name] for name in _OTHER_FIELDS if name in raw}, "metadata": metadata, **fields}
    suspend = _value_at(raw, f"{run_policy_path}.suspend") if run_policy_path else None
    return _with_value_at(restored, f"{run_policy_path}.suspend", suspend) if isinstance(suspend, bool) else restored


def _decompress(data: bytes) -> bytes:
    """Decompress a spec; a few bytes that others wrote must not fill the memory of the operator."""
    decompressor = zlib.decompressobj()
    content = decompressor.decompress(data, MAX_SPEC_BYTES)
    if not decompressor.eof:
        raise ValueError(f"exceeds {MAX_SPEC_BYTES:,} bytes")
    return content


def _value_at(raw: Any, path: str) -> Any:
    for step in path.split("."):
        raw = raw.get(step) if isinstance(raw, Mapping) else None
    return raw


def _with_value_at(raw: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    first, _, rest = path.partition(".")
    if not rest:
        return {**raw, first: value}
    inner = raw.get(first)
    return {**raw, first: _with_value_at(inner if isinstance(inner, Mapping) else {}, rest, value)}

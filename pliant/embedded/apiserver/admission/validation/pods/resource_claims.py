"""Validation of the resource claims of a pod, and of the containers that use them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from pliant.embedded.apiserver.admission.validation import names
from pliant.embedded.apiserver.http.errors import duplicate_value, invalid_field, required_field
from pliant.embedded.schema import FieldError
from pliant.embedded.schema.metadata import DNS_LABEL_RULE
from pliant.embedded.storage.stored_objects import Object

_REFERENCES = ("resourceClaimName", "resourceClaimTemplateName")


def validate_pod_claims(spec: Object) -> Iterator[FieldError]:
    known: set[str] = set()
    for index, claim in enumerate(spec.get("resourceClaims") or ()):
        path, name = f"spec.resourceClaims[{index}]", claim.get("name") or ""
        if not name:
            yield required_field(f"{path}.name")
        elif name in known:
            yield duplicate_value(f"{path}.name", name)
        else:
            yield from names.validate_name(f"{path}.name", name, DNS_LABEL_RULE)
            known.add(name)
        present = [field for field in _REFERENCES if claim.get(field) is not None]
        if len(present) != 1:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            yield invalid_field(path, claim, detail)
        for field in present:
            yield from names.validate_name(f"{path}.{field}", claim[field])


def validate_used_claims(claims: Sequence[Object], of_pod: Collection[str], path: str) -> Iterator[FieldError]:
    """Yield the errors of the claims that a container uses, of which the pod must have each."""
    used: set[str] = set()
    for index, claim in enumerate(claims):
        claim_path, name, request = f"{path}[{index}]", claim.get("name") or "", claim.get("request") or ""
        if not name:
            yield required_field(claim_path)
            continue
        if name in used:
            yield duplicate_value(claim_path, name)
        else:
            if request:
                yield from names.validate_name(f"{claim_path}.request", request, DNS_LABEL_RULE)
            key = f"{name}/{request}" if request else name
            if key in used or (not request and any(each.startswith(f"{name}/") for each in used)):
                yield duplicate_value(claim_path, key)
            used.add(key)
        if name not in of_pod:
            yield FieldError(claim_path, "FieldValueNotFound", f'Not found: "{name}"')

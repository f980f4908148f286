"""The defaulters and validators of policies, which are imported, with CEL, when the first one is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pliant.embedded.registry.policy_kinds import POLICY_GROUP
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

_POLICIES: Final = f"{POLICY_GROUP}/validatingadmissionpolicies"
_BINDINGS: Final = f"{POLICY_GROUP}/validatingadmissionpolicybindings"


def _set_policy_defaults(policy: Object, old: Object | None) -> None:
    from pliant.embedded.apiserver.policies.policy_objects import set_policy_defaults

    set_policy_defaults(policy, old)


def _set_binding_defaults(binding: Object, old: Object | None) -> None:
    from pliant.embedded.apiserver.policies.policy_objects import set_binding_defaults

    set_binding_defaults(binding, old)


def _validate_policy(policy: Object, old: Object | None) -> list[FieldError]:
    from pliant.embedded.apiserver.policies.policy_objects import validate_policy

    return validate_policy(policy, old)


def _validate_binding(binding: Object, old: Object | None) -> list[FieldError]:
    from pliant.embedded.apiserver.policies.policy_objects import validate_binding

    return validate_binding(binding, old)


POLICY_DEFAULTERS: Final[dict[str, Callable[[Object, Object | None], None]]] = {
    _POLICIES: _set_policy_defaults,
    _BINDINGS: _set_binding_defaults,
}
POLICY_VALIDATORS: Final[dict[str, Callable[[Object, Object | None], list[FieldError]]]] = {
    _POLICIES: _validate_policy,
    _BINDINGS: _validate_binding,
}

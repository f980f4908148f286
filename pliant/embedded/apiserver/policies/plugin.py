"""The admission plug-in of ValidatingAdmissionPolicies; the evaluation is imported when a binding exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pliant.embedded.apiserver.admission.plugins import AdmissionRequest
from pliant.embedded.apiserver.authorization.authorizer import Authorizer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.registry.policy_kinds import POLICY_GROUP
from pliant.embedded.storage.store import Transaction

if TYPE_CHECKING:
    from pliant.embedded.apiserver.policies.dispatcher import PolicyDispatcher

BINDINGS_RESOURCE_KEY: Final = f"{POLICY_GROUP}/validatingadmissionpolicybindings"


class PolicyAdmission:
    def __init__(self, registry: KindRegistry, authorizer: Authorizer) -> None:
        self._registry = registry
        self._authorizer = authorizer
        self._dispatcher: PolicyDispatcher | None = None

    def is_active(self, transaction: Transaction, kind: Kind, namespace: str) -> bool:
        # As in Kubernetes, no policy applies to policies: an administrator can always delete one.
        return kind.group != POLICY_GROUP and transaction.committed.has_objects(BINDINGS_RESOURCE_KEY, "")

    def mutate(self, request: AdmissionRequest) -> None:
        """Change nothing: mutating policies are not served."""

    def validate(self, request: AdmissionRequest) -> None:
        """Raise an `ApiError` if a policy denies the request; add the warnings of policies."""
        if self._dispatcher is None:
            # Importing CEL takes 12 ms; most clusters have no policies.
            from pliant.embedded.apiserver.policies.dispatcher import PolicyDispatcher

            self._dispatcher = PolicyDispatcher(self._registry, self._authorizer)
        self._dispatcher.dispatch(request)

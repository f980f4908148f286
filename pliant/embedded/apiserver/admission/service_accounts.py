"""The service accounts of new pods must exist."""

from __future__ import annotations

from typing import Any, Final

from pliant.embedded.apiserver.http.errors import forbidden
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.storage.store import Transaction
from pliant.embedded.storage.stored_objects import Object, ObjectKey

_RESOURCE_KEY: Final = "/serviceaccounts"
_DEFAULT_ACCOUNT: Final = "default"


def require_service_account(transaction: Transaction, kind: Kind, namespace: str, pod: Object) -> None:
    """Raise `Forbidden` if a new pod names a service account that does not exist.

    A pod may always use the account `default`: no controller creates it again after a deletion.
    """
    spec: Any = pod.get("spec")
    if not isinstance(spec, dict):
        return  # the validation of the schema reports it
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or _DEFAULT_ACCOUNT
    if account == _DEFAULT_ACCOUNT or not isinstance(account, str):
        return
    if transaction.get(ObjectKey(_RESOURCE_KEY, namespace, account)) is None:
        name = pod["metadata"].get("name") or pod["metadata"].get("generateName") or "Unknown"
        detail = f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found'
        raise forbidden(kind, name, detail)

"""Decides who may set the annotation with the working directory of programs, which also allows hostPath volumes."""

from __future__ import annotations

from pliant.embedded.apiserver.auth.users import UserInfo
from pliant.embedded.apiserver.authorization.attributes import RequestAttributes
from pliant.embedded.apiserver.authorization.authorizer import Authorizer
from pliant.embedded.apiserver.http.errors import forbidden
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.program_annotations import WORKSPACE_ANNOTATION
from pliant.embedded.storage.store import Transaction
from pliant.embedded.storage.stored_objects import Object

_NODES_RESOURCE_KEY = "/nodes"


class WorkspaceAuthorizer:
    """Lets the owner of the cluster set the annotation, and a controller copy it from an object to its dependents."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def check_object(self, transaction: Transaction, info: RequestInfo, new: Object, old: Object | None) -> None:
        """Raise `Forbidden` if the user of a request sets or changes the annotation and may not."""
        kind, user = info.kind, info.user
        workspace = _workspace_of(new)
        is_unchanged = workspace is None or (old is not None and workspace == _workspace_of(old))
        # On a node, the annotation is a description by the kubelet.
        if is_unchanged or kind.resource_key == _NODES_RESOURCE_KEY or self._authorizer.allows_everything(user):
            return
        if not self._is_copy(transaction, user, new, workspace):
            detail = f"only the owner of the cluster may set the annotation {WORKSPACE_ANNOTATION}: remove it"
            raise forbidden(kind, new["metadata"].get("name") or "", detail)

    def _is_copy(self, transaction: Transaction, user: UserInfo, obj: Object, workspace: str | None) -> bool:
        """Return whether the controller of an object has the same annotation, and the user acts for that controller.

        Whoever may block the deletion of the controller with an owner reference acts for it: the operator of a job.
        """
        references = obj["metadata"].get("ownerReferences") or ()
        uid = next((reference["uid"] for reference in references if reference.get("controller")), "")
        key = transaction.committed.find_key_by_uid(uid)
        controller = transaction.get(key) if key is not None else None
        if key is None or controller is None or controller.uid != uid:
            return False
        is_in_scope = key.namespace in ("", obj["metadata"].get("namespace"))
        if not is_in_scope or _workspace_of(controller.decode()) != workspace:
            return False
        group, _, plural = key.resource.partition("/")
        return self._authorizer.is_allowed(
            RequestAttributes(user, "update", group, plural, "finalizers", key.namespace, key.name)
        )


def _workspace_of(obj: Object) -> str | None:
    value = (obj["metadata"].get("annotations") or {}).get(WORKSPACE_ANNOTATION)
    return None if value is None else str(value)

"""Self-subject reviews: every authenticated user has all permissions."""

from __future__ import annotations

from typing import Any

from pliant.embedded.apiserver.auth.tokens import UserInfo

ADMIN_USER: UserInfo = {"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]}
ANONYMOUS_USER: UserInfo = {"username": "system:anonymous", "groups": ["system:unauthenticated"]}
_ALLOW_ALL_RULES = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


def answer_self_review(group: str, version: str, plural: str, *, user: UserInfo) -> dict[str, Any] | None:
    """Return the review with its status, or None if the resource is not a self-subject review."""
    reviews: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {
        ("authorization.k8s.io", "selfsubjectaccessreviews"): ("SelfSubjectAccessReview", {"allowed": True}),
        ("authorization.k8s.io", "selfsubjectrulesreviews"): ("SelfSubjectRulesReview", _ALLOW_ALL_RULES),
        ("authentication.k8s.io", "selfsubjectreviews"): ("SelfSubjectReview", {"userInfo": user}),
    }
    if version != "v1" or (group, plural) not in reviews:
        return None
    kind, status = reviews[group, plural]
    return {"kind": kind, "apiVersion": f"{group}/{version}", "metadata": {}, "spec": {}, "status": status}

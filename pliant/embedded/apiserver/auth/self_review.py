"""What a client may ask about itself: whoever is let in may do everything."""

from __future__ import annotations

from typing import Any

from pliant.embedded.apiserver.auth.tokens import UserInfo

ADMIN_USER: UserInfo = {"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]}
ANONYMOUS_USER: UserInfo = {"username": "system:anonymous", "groups": ["system:unauthenticated"]}

_ALLOW_ALL_RULE = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
_ALLOW_ALL_RULES = {
    "resourceRules": [_ALLOW_ALL_RULE],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}


def answer_self_review(group: str, version: str, plural: str, *, user: UserInfo) -> dict[str, Any] | None:
    """The answer to a self-review, whatever it asks; None for anything else."""
    answers: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {
        ("authorization.k8s.io", "selfsubjectaccessreviews"): ("SelfSubjectAccessReview", {"allowed": True}),
        ("authorization.k8s.io", "selfsubjectrulesreviews"): (
            "SelfSubjectRulesReview",
            {**_ALLOW_ALL_RULES, "incomplete": False},
        ),
        ("authentication.k8s.io", "selfsubjectreviews"): ("SelfSubjectReview", {"userInfo": user}),
    }
    found = answers.get((group, plural)) if version == "v1" else None
    if found is None:
        return None
    kind, status = found
    return {"kind": kind, "apiVersion": f"{group}/{version}", "metadata": {}, "spec": {}, "status": status}

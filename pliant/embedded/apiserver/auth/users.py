"""The users of the API: the fixed ones, and what the groups of a user mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

UserInfo = Mapping[str, Any]
"""The fields of a UserInfo of authentication.k8s.io: `username`, `groups`, `uid` and `extra`."""

SUPERUSER_GROUP = "system:masters"
AUTHENTICATED_GROUP = "system:authenticated"
UNAUTHENTICATED_GROUP = "system:unauthenticated"
NODES_GROUP = "system:nodes"
SERVICE_ACCOUNTS_GROUP = "system:serviceaccounts"
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
NODE_PREFIX = "system:node:"

ADMIN_USER: UserInfo = {"username": "kubernetes-admin", "groups": [SUPERUSER_GROUP, AUTHENTICATED_GROUP]}
ANONYMOUS_USER: UserInfo = {"username": "system:anonymous", "groups": [UNAUTHENTICATED_GROUP]}
CONTROLLERS_USER: UserInfo = {"username": "system:kube-controller-manager", "groups": [AUTHENTICATED_GROUP]}
SCHEDULER_USER: UserInfo = {"username": "system:kube-scheduler", "groups": [AUTHENTICATED_GROUP]}


def service_account_user(namespace: str, name: str) -> dict[str, Any]:
    """Return the user of a service account."""
    groups = [SERVICE_ACCOUNTS_GROUP, f"{SERVICE_ACCOUNTS_GROUP}:{namespace}", AUTHENTICATED_GROUP]
    return {"username": f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}", "groups": groups}


def node_user(name: str) -> UserInfo:
    """Return the user of the kubelet of a node."""
    return {"username": f"{NODE_PREFIX}{name}", "groups": [NODES_GROUP, AUTHENTICATED_GROUP]}


def is_superuser(user: UserInfo) -> bool:
    return user is ADMIN_USER or SUPERUSER_GROUP in user["groups"]


def node_name_of(user: UserInfo) -> str | None:
    """Return the node that a user is, "" for a user of the group of nodes without a name, None for other users."""
    if NODES_GROUP not in user["groups"]:
        return None
    username: str = user["username"]
    return username.removeprefix(NODE_PREFIX) if username.startswith(NODE_PREFIX) else ""

"""Reviews and roles of odd shapes and sizes are answered at once, with a 4xx."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pliant.embedded.apiserver.authorization.authorizer import AuthorizationMode
from pliant.embedded.apiserver.authorization.rules import PolicyRule, uncovered_rules
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.errors import Forbidden
from pliant.kube.client import KubeClient
from tests.access.asking import prepare
from tests.access.table import RBAC, REVIEWS, SPACE, USERS, role
from tests.access.test_roles_and_bindings import ROLES
from tests.embedded.serving import Served, serving


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with serving(mode=AuthorizationMode.RBAC) as server:
        yield server


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{REVIEWS}/selfsubjectaccessreviews", {"spec": "me"}),
        (f"{REVIEWS}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": []}}),
        (f"{REVIEWS}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": {"verb": 7}}}),
        (f"{REVIEWS}/selfsubjectaccessreviews", {"kind": 5}),
        (f"{REVIEWS}/selfsubjectaccessreviews", {"metadata": "x"}),
        (f"{REVIEWS}/selfsubjectaccessreviews", []),
        (f"{REVIEWS}/subjectaccessreviews", {"spec": {"user": "a", "groups": "b", "resourceAttributes": {}}}),
        (f"{REVIEWS}/subjectaccessreviews", {"spec": {"user": None, "resourceAttributes": {}}}),
        (f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": ["a"]}}),
        (f"{RBAC}/clusterroles", {"metadata": {"name": "a"}, "rules": [None]}),
        (f"{RBAC}/clusterroles", {"metadata": {"name": "a"}, "aggregationRule": "all"}),
        (f"{RBAC}/clusterroles", {"metadata": {"name": "a"}, "aggregationRule": {"clusterRoleSelectors": ["x"]}}),
        (f"{RBAC}/clusterrolebindings", {"metadata": {"name": "a"}, "roleRef": "x"}),
        (f"{RBAC}/clusterrolebindings", {"metadata": {"name": "a"}, "roleRef": None, "subjects": [{}]}),
        (f"{RBAC}/clusterrolebindings", {"metadata": {"name": ".."}, "roleRef": {"kind": "ClusterRole", "name": "a"}}),
    ],
)
async def test_a_malformed_review_role_or_binding_is_rejected(server: Served, path: str, body: Any) -> None:
    reply, _ = await server.call("POST", path, body)
    assert 400 <= reply.status < 500


async def test_a_rule_of_a_billion_rights_is_refused_at_once(server: Served) -> None:
    await prepare(server.transport)
    granter = KubeClient(InProcessTransport(server.api, USERS["granter"]))
    many = [f"x{number}" for number in range(1000)]
    rules = {"apiGroups": many, "resources": many, "verbs": many}
    began = time.process_time()
    with pytest.raises(Forbidden, match="not currently held"):
        await granter.create(ROLES, SPACE, role("huge", rules))
    assert time.process_time() - began < 2


def test_a_large_rule_that_one_rule_covers_is_covered() -> None:
    many = tuple(f"x{number}" for number in range(200))
    granted = PolicyRule(many, many, many)
    assert uncovered_rules([PolicyRule(("*",), ("*",), ("*",))], [granted]) == []
    assert uncovered_rules([PolicyRule(many, many, many[1:])], [granted]) == [granted]

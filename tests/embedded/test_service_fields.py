"""Services keep what the API server has allocated, lose what their new type does not have, and claims do not grow."""

from __future__ import annotations

from typing import Any

import pytest

from pliant.errors import Forbidden, Invalid
from pliant.kube.resources import Resource
from tests.embedded.serving import serving

SERVICES = Resource("", "v1", "services", "Service")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")


def _service(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], **spec}}


async def test_node_ports_follow_the_names_of_ports() -> None:
    async with serving() as server:
        ports = [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]
        created = await server.client.create(SERVICES, "default", _service(type="NodePort", ports=ports))
        before = {port["name"]: port["nodePort"] for port in created["spec"]["ports"]}
        ports = [{"port": 90, "name": "b"}, {"port": 91, "name": "c"}]
        changed = await server.client.patch(SERVICES, "default", "s", {"spec": {"ports": ports}})
        after = {port["name"]: port["nodePort"] for port in changed["spec"]["ports"]}
        assert after["b"] == before["b"]
        assert after["c"] not in before.values()


async def test_load_balancers_with_local_traffic_have_a_port_for_health_checks() -> None:
    async with serving() as server:
        created = await server.client.create(
            SERVICES, "default", _service(type="LoadBalancer", externalTrafficPolicy="Local")
        )
        assert created["spec"]["healthCheckNodePort"] not in {port["nodePort"] for port in created["spec"]["ports"]}
        changed = await server.client.patch(SERVICES, "default", "s", {"spec": {"type": "ClusterIP"}})
        assert not changed["spec"].keys() & {"healthCheckNodePort", "externalTrafficPolicy"}
        assert "nodePort" not in changed["spec"]["ports"][0]


async def test_a_node_port_belongs_to_one_service() -> None:
    async with serving() as server:
        wanted = _service(type="NodePort", ports=[{"port": 80, "nodePort": 30_007}])
        await server.client.create(SERVICES, "default", wanted)
        with pytest.raises(Invalid, match="already allocated"):
            await server.client.create(SERVICES, "default", {**wanted, "metadata": {"name": "t"}})
        with pytest.raises(Invalid, match="not in the valid range"):
            await server.client.patch(SERVICES, "default", "s", {"spec": {"ports": [{"port": 80, "nodePort": 80}]}})


async def test_bound_claims_do_not_grow() -> None:
    async with serving() as server:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": spec}
        await server.client.create(CLAIMS, "default", claim)
        path = f"{CLAIMS.path('default')}/c/status"
        media = "application/merge-patch+json"
        await server.call("PATCH", path, {"status": {"phase": "Bound"}}, media=media)
        size = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
        with pytest.raises(Forbidden, match="must support resize"):
            await server.client.patch(CLAIMS, "default", "c", size)

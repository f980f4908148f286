"""Programs that ask no names are told of services by variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pliant.embedded.network.service_discovery import service_variables
from pliant.embedded.network.service_index import ServiceIndex
from pliant.embedded.object_views import ServicePortView, ServiceSpecView, ServiceView
from pliant.kube.objects import ObjectMeta
from pliant.kube.resources import SERVICES
from tests.node.running import running

TOLD_OF_WEB = {
    "WEB_UI_SERVICE_HOST": "10.96.0.10",
    "WEB_UI_SERVICE_PORT": "80",
    "WEB_UI_SERVICE_PORT_HTTP": "80",
    "WEB_UI_SERVICE_PORT_DNS_UDP": "53",
    "WEB_UI_PORT": "tcp://10.96.0.10:80",
    "WEB_UI_PORT_80_TCP": "tcp://10.96.0.10:80",
    "WEB_UI_PORT_80_TCP_PROTO": "tcp",
    "WEB_UI_PORT_80_TCP_PORT": "80",
    "WEB_UI_PORT_80_TCP_ADDR": "10.96.0.10",
    "WEB_UI_PORT_53_UDP": "udp://10.96.0.10:53",
    "WEB_UI_PORT_53_UDP_PROTO": "udp",
    "WEB_UI_PORT_53_UDP_PORT": "53",
    "WEB_UI_PORT_53_UDP_ADDR": "10.96.0.10",
}


def service(name: str, namespace: str, address: str, *ports: ServicePortView) -> ServiceView:
    spec = ServiceSpecView(cluster_ip=address, ports=ports)
    return ServiceView(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec)


def told(names: ServiceIndex, namespace: str, **spec: Any) -> dict[str, str]:
    return service_variables(names, {"metadata": {"namespace": namespace}, "spec": spec}, str)


def test_every_address_and_port_of_a_namespace_is_told_and_always_where_the_api_is() -> None:
    names = ServiceIndex()
    ports = (ServicePortView(name="http", port=80), ServicePortView(name="dns-udp", port=53, protocol="UDP"))
    web = service("web-ui", "team", "10.96.0.10", *ports)
    names.on_service_change(None, web)
    names.on_service_change(None, service("headless", "team", "None", *ports))
    names.on_service_change(None, service("away", "team", "", *ports))
    alone = told(names, "elsewhere")
    assert alone["KUBERNETES_SERVICE_HOST"] == "10.96.0.1"
    assert alone["KUBERNETES_SERVICE_PORT_HTTPS"] == "443"
    assert told(names, "team") == {**alone, **TOLD_OF_WEB}
    assert told(names, "team", enableServiceLinks=False) == alone
    names.on_service_change(web, None)
    assert told(names, "team") == alone


async def test_a_pod_finds_services_that_were_there_before_it(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}
        made = await cluster.client.create(SERVICES, "default", body)
        address = made["spec"]["clusterIP"]
        assert await cluster.ran("a", "echo $WEB_SERVICE_HOST $WEB_PORT") == f"{address} tcp://{address}:80"
        assert await cluster.ran("b", "echo -$WEB_PORT-", enableServiceLinks=False) == "--"

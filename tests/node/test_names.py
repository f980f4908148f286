"""Names lead to the services and pods of the moment, and to nobody else."""

from __future__ import annotations

import struct
from datetime import UTC, datetime

import pytest

from pliant.embedded.network.dns_message import RecordType
from pliant.embedded.network.dns_zone import DnsZone
from pliant.embedded.network.service_index import ServiceEndpoint, ServiceIndex
from pliant.embedded.object_views import (
    ContainerPortView,
    ContainerView,
    PodObjectMeta,
    PodSpecView,
    PodStatusView,
    PodView,
    ServicePortView,
    ServiceSpecView,
    ServiceView,
)
from pliant.kube.objects import Condition, ObjectMeta

DB = {"app": "db"}


@pytest.fixture
def names() -> ServiceIndex:
    return ServiceIndex()


def test_a_headless_service_stands_for_its_ready_pods(names: ServiceIndex) -> None:
    names.on_service_change(None, _service("db", DB))
    names.on_pod_change(None, _pod("db-0", "10.88.0.2", {"app": "db", "more": "x"}))
    names.on_pod_change(None, _pod("db-1", "10.88.0.3", DB, is_ready=False))
    names.on_pod_change(None, _pod("web", "10.88.0.4", {"app": "web"}))
    for name in ("db", "db.default", "db.default.svc", "db.default.svc.cluster.local"):
        assert DnsZone(names).resolve_addresses(name, "default") == ["10.88.0.2"]
    assert DnsZone(names).resolve_addresses("db", "other") == []
    assert DnsZone(names).resolve_addresses("db.default", "other") == ["10.88.0.2"]


def test_a_service_may_show_pods_before_they_are_ready(names: ServiceIndex) -> None:
    names.on_service_change(None, _service("db", DB, even_unready=True))
    names.on_pod_change(None, _pod("db-0", "10.88.0.2", DB, is_ready=False))
    assert DnsZone(names).resolve_addresses("db", "default") == ["10.88.0.2"]


def test_names_go_with_their_pods(names: ServiceIndex) -> None:
    pod = _pod("db-0", "10.88.0.2", DB)
    names.on_service_change(None, _service("db", DB))
    names.on_pod_change(None, pod)
    names.on_pod_change(pod, None)
    assert DnsZone(names).find_records("db.default.svc.cluster.local", RecordType.A, "default") is None
    assert names.pod_by_ip("10.88.0.2") is None


def test_a_pod_that_leaves_is_found_no_more(names: ServiceIndex) -> None:
    pod = _pod("db-0", "10.88.0.2", DB)
    leaving = _pod("db-0", "10.88.0.2", DB, is_leaving=True)
    names.on_service_change(None, _service("db", DB))
    names.on_pod_change(None, pod)
    names.on_pod_change(pod, leaving)
    assert DnsZone(names).resolve_addresses("db", "default") == []


def test_a_pod_in_a_subdomain_has_a_name_of_its_own(names: ServiceIndex) -> None:
    names.on_service_change(None, _service("ring", {"app": "ring"}))
    names.on_pod_change(None, _pod("node-0", "10.88.0.2", {"app": "ring"}, subdomain="ring"))
    names.on_pod_change(None, _pod("node-1", "10.88.0.3", {"app": "ring"}))
    assert DnsZone(names).resolve_addresses("node-0.ring.default.svc.cluster.local", "x") == ["10.88.0.2"]
    assert DnsZone(names).resolve_addresses("10-88-0-3.ring", "default") == ["10.88.0.3"]
    assert DnsZone(names).resolve_addresses("node-1.ring", "default") == []


def test_a_service_with_an_address_is_found_at_it_whether_or_not_pods_are_there(names: ServiceIndex) -> None:
    names.on_service_change(None, _service("web", {"app": "web"}, address="10.96.0.10"))
    assert DnsZone(names).resolve_addresses("web", "default") == ["10.96.0.10"]
    assert DnsZone(names).find_records("web.default.svc.cluster.local", RecordType.AAAA, "default") == []
    assert DnsZone(names).resolve_addresses("kubernetes.default.svc", "other") == ["10.96.0.1"]


def test_ports_are_found_by_name(names: ServiceIndex) -> None:
    ports = (ServicePortView(name="grpc", port=80, target_port="serve"), ServicePortView(name="web", port=81))
    pod = _pod("db-0", "10.88.0.2", DB, ports={"serve": 9000}, subdomain="db")
    names.on_pod_change(None, pod)
    names.on_service_change(None, _service("db", DB, ports=ports))
    (found,) = DnsZone(names).find_records("_grpc._tcp.db.default.svc.cluster.local", RecordType.SRV, "default") or []
    assert struct.unpack("!HHH", found.data[:6])[2] == 9000
    assert found.data[6:] == b"\x04db-0\x02db\x07default\x03svc\x07cluster\x05local\x00"
    assert DnsZone(names).find_records("_none._tcp.db.default.svc.cluster.local", RecordType.SRV, "default") is None
    service = names.service("default", "db")
    assert service is not None
    assert [names.routable_endpoints(service, each) for each in ports] == [
        [ServiceEndpoint("10.88.0.2", 9000)],
        [ServiceEndpoint("10.88.0.2", 81)],
    ]


def test_addresses_are_read_backwards(names: ServiceIndex) -> None:
    names.on_service_change(None, _service("web", {}, address="10.96.0.10"))
    names.on_service_change(None, _service("ring", {"app": "ring"}))
    names.on_pod_change(None, _pod("node-0", "10.88.0.2", {"app": "ring"}, subdomain="ring"))
    zone = DnsZone(names)
    (service,) = zone.find_records("10.0.96.10.in-addr.arpa", RecordType.PTR, "default") or []
    (pod,) = zone.find_records("2.0.88.10.in-addr.arpa", RecordType.PTR, "default") or []
    assert b"web" in service.data
    assert b"node-0" in pod.data
    assert zone.is_cluster_name("9.9.88.10.in-addr.arpa")
    assert not zone.is_cluster_name("8.8.8.8.in-addr.arpa")


@pytest.mark.parametrize("name", ["db", "db.default", "db.default.svc", "x.cluster.local", "printer.local"])
def test_names_that_only_the_cluster_could_know_are_asked_nowhere_else(names: ServiceIndex, name: str) -> None:
    assert DnsZone(names).is_cluster_name(name)


def test_a_namespace_called_as_a_domain_is_does_not_hide_it(names: ServiceIndex) -> None:
    service = ServiceView(metadata=ObjectMeta(name="ring", namespace="dev"))
    names.on_service_change(None, service)
    zone = DnsZone(names)
    assert [zone.is_cluster_name(name) for name in ("db.dev", "node-0.ring.dev")] == [True, True]
    assert not zone.is_cluster_name("files.example.dev")


@pytest.mark.parametrize("name", ["pypi.org", "db.default.example.com"])
def test_other_names_are_for_others(names: ServiceIndex, name: str) -> None:
    assert not DnsZone(names).is_cluster_name(name)
    assert DnsZone(names).find_records(name, RecordType.A, "default") is None


def test_a_name_elsewhere_is_told_as_such(names: ServiceIndex) -> None:
    spec = ServiceSpecView(external_name="db.example.com")
    names.on_service_change(None, ServiceView(metadata=ObjectMeta(name="far", namespace="default"), spec=spec))
    (found,) = DnsZone(names).find_records("far.default.svc.cluster.local", RecordType.A, "default") or []
    assert found.record_type is RecordType.CNAME
    assert found.data == b"\x02db\x07example\x03com\x00"


def test_changes_that_matter_are_told(names: ServiceIndex) -> None:
    told: list[None] = []
    names.on_change = lambda: told.append(None)
    pod = _pod("db-0", "10.88.0.2", DB)
    names.on_pod_change(None, pod)
    names.on_pod_change(pod, _pod("db-0", "10.88.0.2", DB))
    assert len(told) == 1
    names.on_service_change(None, _service("db", DB))
    assert len(told) == 2


def _service(
    name: str,
    selector: dict[str, str],
    *,
    address: str = "None",
    even_unready: bool = False,
    ports: tuple[ServicePortView, ...] = (),
) -> ServiceView:
    spec = ServiceSpecView(selector=selector, cluster_ip=address, publish_not_ready_addresses=even_unready, ports=ports)
    return ServiceView(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


def _pod(
    name: str,
    address: str,
    labels: dict[str, str],
    *,
    is_ready: bool = True,
    is_leaving: bool = False,
    subdomain: str = "",
    ports: dict[str, int] | None = None,
) -> PodView:
    ready = Condition(type="Ready", status="True" if is_ready else "False")
    declared = tuple(ContainerPortView(name=each, container_port=port) for each, port in (ports or {}).items())
    leaving = datetime(2026, 1, 1, tzinfo=UTC) if is_leaving else None
    return PodView(
        metadata=PodObjectMeta(name=name, namespace="default", uid=name, labels=labels, deletion_timestamp=leaving),
        spec=PodSpecView(subdomain=subdomain, containers=(ContainerView(ports=declared),)),
        status=PodStatusView(phase="Running", pod_ip=address, conditions=(ready,)),
    )

"""Names lead to the services and pods of the moment, and to nobody else."""

from __future__ import annotations

import struct
from datetime import UTC, datetime

import pytest

from pliant.embedded.names import Endpoint, Names
from pliant.embedded.network.message import Kind
from pliant.embedded.network.zone import Zone
from pliant.embedded.views import (
    ContainerPort,
    ContainerView,
    PodMeta,
    PodSpecView,
    PodStatusView,
    PodView,
    ServicePort,
    ServiceSpecView,
    ServiceView,
)
from pliant.kube.objects import Condition, ObjectMeta

DB = {"app": "db"}


@pytest.fixture
def names() -> Names:
    return Names()


def test_a_headless_service_stands_for_its_ready_pods(names: Names) -> None:
    names.service_changed(None, _service("db", DB))
    names.pod_changed(None, _pod("db-0", "10.88.0.2", {"app": "db", "more": "x"}))
    names.pod_changed(None, _pod("db-1", "10.88.0.3", DB, is_ready=False))
    names.pod_changed(None, _pod("web", "10.88.0.4", {"app": "web"}))
    for name in ("db", "db.default", "db.default.svc", "db.default.svc.cluster.local"):
        assert Zone(names).addresses(name, "default") == ["10.88.0.2"]
    assert Zone(names).addresses("db", "other") == []
    assert Zone(names).addresses("db.default", "other") == ["10.88.0.2"]


def test_a_service_may_show_pods_before_they_are_ready(names: Names) -> None:
    names.service_changed(None, _service("db", DB, even_unready=True))
    names.pod_changed(None, _pod("db-0", "10.88.0.2", DB, is_ready=False))
    assert Zone(names).addresses("db", "default") == ["10.88.0.2"]


def test_names_go_with_their_pods(names: Names) -> None:
    pod = _pod("db-0", "10.88.0.2", DB)
    names.service_changed(None, _service("db", DB))
    names.pod_changed(None, pod)
    names.pod_changed(pod, None)
    assert Zone(names).records("db.default.svc.cluster.local", Kind.A, "default") is None
    assert names.pod_at("10.88.0.2") is None


def test_a_pod_that_leaves_is_found_no_more(names: Names) -> None:
    pod = _pod("db-0", "10.88.0.2", DB)
    leaving = _pod("db-0", "10.88.0.2", DB, is_leaving=True)
    names.service_changed(None, _service("db", DB))
    names.pod_changed(None, pod)
    names.pod_changed(pod, leaving)
    assert Zone(names).addresses("db", "default") == []


def test_a_pod_in_a_subdomain_has_a_name_of_its_own(names: Names) -> None:
    names.service_changed(None, _service("ring", {"app": "ring"}))
    names.pod_changed(None, _pod("node-0", "10.88.0.2", {"app": "ring"}, subdomain="ring"))
    names.pod_changed(None, _pod("node-1", "10.88.0.3", {"app": "ring"}))
    assert Zone(names).addresses("node-0.ring.default.svc.cluster.local", "x") == ["10.88.0.2"]
    assert Zone(names).addresses("10-88-0-3.ring", "default") == ["10.88.0.3"]
    assert Zone(names).addresses("node-1.ring", "default") == []


def test_a_service_with_an_address_is_found_at_it_whether_or_not_pods_are_there(names: Names) -> None:
    names.service_changed(None, _service("web", {"app": "web"}, address="10.96.0.10"))
    assert Zone(names).addresses("web", "default") == ["10.96.0.10"]
    assert Zone(names).records("web.default.svc.cluster.local", Kind.AAAA, "default") == []
    assert Zone(names).addresses("kubernetes.default.svc", "other") == ["10.96.0.1"]


def test_ports_are_found_by_name(names: Names) -> None:
    ports = (ServicePort(name="grpc", port=80, target_port="serve"), ServicePort(name="web", port=81))
    pod = _pod("db-0", "10.88.0.2", DB, ports={"serve": 9000}, subdomain="db")
    names.pod_changed(None, pod)
    names.service_changed(None, _service("db", DB, ports=ports))
    (found,) = Zone(names).records("_grpc._tcp.db.default.svc.cluster.local", Kind.SRV, "default") or []
    assert struct.unpack("!HHH", found.data[:6])[2] == 9000
    assert found.data[6:] == b"\x04db-0\x02db\x07default\x03svc\x07cluster\x05local\x00"
    assert Zone(names).records("_none._tcp.db.default.svc.cluster.local", Kind.SRV, "default") is None
    service = names.service("default", "db")
    assert service is not None
    assert [names.endpoints(service, each) for each in ports] == [
        [Endpoint("10.88.0.2", 9000)],
        [Endpoint("10.88.0.2", 81)],
    ]


def test_addresses_are_read_backwards(names: Names) -> None:
    names.service_changed(None, _service("web", {}, address="10.96.0.10"))
    names.service_changed(None, _service("ring", {"app": "ring"}))
    names.pod_changed(None, _pod("node-0", "10.88.0.2", {"app": "ring"}, subdomain="ring"))
    zone = Zone(names)
    (service,) = zone.records("10.0.96.10.in-addr.arpa", Kind.PTR, "default") or []
    (pod,) = zone.records("2.0.88.10.in-addr.arpa", Kind.PTR, "default") or []
    assert b"web" in service.data
    assert b"node-0" in pod.data
    assert zone.is_ours("9.9.88.10.in-addr.arpa")
    assert not zone.is_ours("8.8.8.8.in-addr.arpa")


@pytest.mark.parametrize("name", ["db", "db.default", "db.default.svc", "x.cluster.local", "printer.local"])
def test_names_that_only_the_cluster_could_know_are_asked_nowhere_else(names: Names, name: str) -> None:
    assert Zone(names).is_ours(name)


def test_a_namespace_called_as_a_domain_is_does_not_hide_it(names: Names) -> None:
    service = ServiceView(metadata=ObjectMeta(name="ring", namespace="dev"))
    names.service_changed(None, service)
    zone = Zone(names)
    assert [zone.is_ours(name) for name in ("db.dev", "node-0.ring.dev")] == [True, True]
    assert not zone.is_ours("files.example.dev")


@pytest.mark.parametrize("name", ["pypi.org", "db.default.example.com"])
def test_other_names_are_for_others(names: Names, name: str) -> None:
    assert not Zone(names).is_ours(name)
    assert Zone(names).records(name, Kind.A, "default") is None


def test_a_name_elsewhere_is_told_as_such(names: Names) -> None:
    spec = ServiceSpecView(external_name="db.example.com")
    names.service_changed(None, ServiceView(metadata=ObjectMeta(name="far", namespace="default"), spec=spec))
    (found,) = Zone(names).records("far.default.svc.cluster.local", Kind.A, "default") or []
    assert found.kind is Kind.CNAME
    assert found.data == b"\x02db\x07example\x03com\x00"


def test_changes_that_matter_are_told(names: Names) -> None:
    told: list[None] = []
    names.on_change = lambda: told.append(None)
    pod = _pod("db-0", "10.88.0.2", DB)
    names.pod_changed(None, pod)
    names.pod_changed(pod, _pod("db-0", "10.88.0.2", DB))
    assert len(told) == 1
    names.service_changed(None, _service("db", DB))
    assert len(told) == 2


def _service(
    name: str,
    selector: dict[str, str],
    *,
    address: str = "None",
    even_unready: bool = False,
    ports: tuple[ServicePort, ...] = (),
) -> ServiceView:
    spec = ServiceSpecView(
        selector=selector, cluster_ip=address, publish_not_ready_addresses=even_unready, ports=ports
    )
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
    declared = tuple(ContainerPort(name=each, container_port=port) for each, port in (ports or {}).items())
    leaving = datetime(2026, 1, 1, tzinfo=UTC) if is_leaving else None
    return PodView(
        metadata=PodMeta(name=name, namespace="default", uid=name, labels=labels, deletion_timestamp=leaving),
        spec=PodSpecView(subdomain=subdomain, containers=(ContainerView(ports=declared),)),
        status=PodStatusView(phase="Running", pod_ip=address, conditions=(ready,)),
    )

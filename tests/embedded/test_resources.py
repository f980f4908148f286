from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pliant.embedded.registry.crds import established_status, set_crd_name_defaults
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.errors import InvalidSpec
from tests.embedded.crd_examples import make_crd

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_built_in_kinds_are_found_by_path_and_by_kind() -> None:
    registry = KindRegistry.with_builtin_kinds()
    pods = registry.find_resource("", "v1", "pods")
    assert pods is not None
    assert registry.find_kind("v1", "Pod") is pods
    assert (pods.api_version, pods.resource_key) == ("v1", "/pods")
    assert pods.subresources[:3] == ("status", "log", "binding")
    leases = registry.find_kind("coordination.k8s.io/v1", "Lease")
    assert leases is not None
    assert (leases.plural, leases.qualified_name) == ("leases", "leases.coordination.k8s.io")


@pytest.mark.parametrize("kind", list(KindRegistry.with_builtin_kinds().kinds()), ids=lambda kind: kind.plural)
def test_every_built_in_schema_compiles_and_takes_a_bare_object(kind: Any) -> None:
    obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "a", "labels": {"a": "b"}}}
    assert kind.schema.prune(obj) == []
    kind.schema.default(obj)
    assert {p.reason for p in kind.schema.validate(obj)} <= {"FieldValueRequired"}


def test_pods_get_the_defaults_of_a_real_cluster() -> None:
    schema = KindRegistry.with_builtin_kinds().find_kind("v1", "Pod").schema  # type: ignore[union-attr]
    assert schema is not None
    pod: dict[str, Any] = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 1}]}]},
    }
    schema.default(pod)
    assert schema.validate(pod) == []
    assert pod["spec"]["restartPolicy"] == "Always"
    assert pod["spec"]["terminationGracePeriodSeconds"] == 30
    assert pod["spec"]["containers"][0]["ports"] == [{"containerPort": 1, "protocol": "TCP"}]


def test_a_pod_with_mistakes_is_told_each_of_them() -> None:
    schema = KindRegistry.with_builtin_kinds().find_kind("v1", "Pod").schema  # type: ignore[union-attr]
    assert schema is not None
    container = {"name": "No_Name", "image": True, "comand": ["x"]}
    pod: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"containers": [container], "restartPolicy": "Perhaps"}}
    assert schema.prune(pod) == ["spec.containers[0].comand"]
    assert [problem.field for problem in schema.validate(pod)] == ["spec.containers[0].image", "spec.restartPolicy"]


def test_a_crd_adds_its_served_versions_and_takes_them_away_again() -> None:
    registry = KindRegistry.with_builtin_kinds()
    before = registry.version
    registry.register_crd(make_crd())
    assert registry.version > before
    job = registry.find_kind("example.org/v1", "Job")
    assert job is not None
    assert registry.find_resource("example.org", "v1", "jobs") is job
    assert (job.list_kind, job.short_names, job.subresources, job.has_status) == (
        "JobList",
        ("jb",),
        ("status", "scale"),
        True,
    )
    assert job.scale is not None
    assert (job.scale.spec_replicas, job.scale.status_replicas, job.scale.label_selector) == (
        ".spec.replicas",
        ".status.replicas",
        None,
    )
    older = registry.find_resource("example.org", "v1beta1", "jobs")
    assert older is not None
    assert (older.resource_key, older.is_storage_version, older.subresources) == (job.resource_key, False, ())
    assert registry.find_resource("example.org", "v1alpha1", "jobs") is None
    registry.unregister_crd("jobs.example.org")
    assert registry.find_resource("example.org", "v1", "jobs") is None


def _version(**changes: Any) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {"name": "v1", "served": True, "storage": True, "schema": schema} | changes


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"group": "other.org"}, "metadata.name"),
        ({"names": {"plural": "jobs"}}, "spec.names.kind"),
        ({"versions": "v1"}, "spec.versions"),
        ({"scope": "Galaxy"}, "spec.scope"),
        ({"versions": [_version(storage=False)]}, "spec.versions"),
        ({"versions": [_version(), _version(storage=False)]}, "spec.versions"),
        ({"versions": [_version(schema=None)]}, "spec.versions[0].schema.openAPIV3Schema"),
        (
            {"versions": [_version(schema={"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}})]},
            "spec.versions[0].schema.openAPIV3Schema.properties[a].type",
        ),
        ({"conversion": {"strategy": "Webhook"}}, "spec.conversion.strategy"),
        ({"preserveUnknownFields": True}, "spec.preserveUnknownFields"),
    ],
)
def test_a_crd_that_cannot_be_served_names_the_field_and_changes_nothing(changes: dict[str, Any], field: str) -> None:
    registry = KindRegistry.with_builtin_kinds()
    before = registry.version
    with pytest.raises(InvalidSpec) as caught:
        registry.register_crd(make_crd(**changes))
    assert caught.value.field == field
    assert registry.version == before


def test_a_crd_may_leave_out_names_that_follow_from_others() -> None:
    crd = make_crd(names={"plural": "jobs", "kind": "Job"})
    set_crd_name_defaults(crd)
    assert crd["spec"]["names"] == {"plural": "jobs", "kind": "Job", "singular": "job", "listKind": "JobList"}
    assert crd["spec"]["conversion"] == {"strategy": "None"}


def test_a_served_crd_is_established_once() -> None:
    crd = make_crd()
    crd["status"] = established_status(crd, NOW)
    assert {c["type"]: c["status"] for c in crd["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert crd["status"]["storedVersions"] == ["v1"]
    again = established_status(crd, datetime(2027, 1, 1, tzinfo=UTC))
    assert again == crd["status"]

"""Random valid objects of every kind in the campaign."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.differential.objects.access import make_cluster_role, make_cluster_role_binding, make_role, make_role_binding
from tests.differential.objects.configuration import (
    make_budget,
    make_budget_status,
    make_claim,
    make_claim_status,
    make_config_map,
    make_event,
    make_lease,
    make_namespace_spec,
    make_namespace_status,
    make_new_event,
    make_priority_class,
    make_secret,
    make_service_account,
)
from tests.differential.objects.crds import make_crd_status, make_installed_crd, make_new_crd
from tests.differential.objects.custom import make_gadget_spec, make_gadget_status
from tests.differential.objects.jobs import make_job
from tests.differential.objects.networking import make_endpoint_slice, make_service, make_service_status
from tests.differential.objects.pods import make_pod_spec
from tests.differential.objects.policies import make_binding, make_policy, make_policy_status
from tests.differential.objects.statuses import (
    make_deployment_status,
    make_job_status,
    make_pod_status,
    make_replica_set_status,
)
from tests.differential.objects.workloads import (
    make_deployment,
    make_limit_range,
    make_replica_set,
    make_resource_quota,
    make_revision,
)
from tests.differential.steps import OTHER_SPACE, RUN, SPACE

Fields = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class KindExample:
    """A kind of the campaign: where it is served and how to make its objects."""

    api_version: str
    kind: str
    plural: str
    make_fields: Callable[[random.Random], Fields]
    """Return all fields but apiVersion, kind and metadata."""
    make_status: Callable[[random.Random], Fields] | None = None
    namespaced: bool = True
    has_scale: bool = False
    weight: int = 2
    fixed_name: str = ""
    """The name of all objects, if the kind has only one in a sequence."""
    is_dry: bool = False
    """Write with dryRun=All only: stored objects would slow down the server, or change what it admits."""

    @property
    def is_custom(self) -> bool:
        return "example.org" in self.api_version

    def collection_path(self, space: str = SPACE) -> str:
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        return f"{root}/namespaces/{space}/{self.plural}" if self.namespaced else f"{root}/{self.plural}"

    def object_name(self, short: str) -> str:
        if self.fixed_name:
            return self.fixed_name
        if self.api_version == "events.k8s.io/v1":
            return f"{short}-new"  # kube-apiserver ignores the managers of fields that wrote the event as core/v1
        return short if self.namespaced else f"{RUN}-{short}"

    def plain_fields(self) -> Fields:
        """Return the fields of an object that is valid, the same ones each time."""
        return {"spec": {"size": 1}} if self.is_custom else self.make_fields(random.Random(0))

    def make(self, rng: random.Random, short: str) -> Fields:
        """Return a valid object."""
        metadata: Fields = {"name": self.object_name(short)}
        if rng.random() < 0.5:
            metadata["labels"] = rng.choice(({"app": "web"}, {"app": "db", "tier": "1"}, {"example.org/a": ""}))
        if rng.random() < 0.15:
            metadata["annotations"] = {"note": "some text", "example.org/x": "1"}
        if rng.random() < 0.08:
            metadata["finalizers"] = ["example.org/keep"]
        if rng.random() < 0.05:
            metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "o-uid"}]
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, **self.make_fields(rng)}


def make_minimal(path: str, name: str) -> Fields:
    """Return an object for a collection path that every label selector of the campaign selects."""
    example = next(each for each in EXAMPLES if path in (each.collection_path(), each.collection_path(OTHER_SPACE)))
    metadata = {"name": name, "labels": {"app": "web", "tier": "1"}}
    return {"apiVersion": example.api_version, "kind": example.kind, "metadata": metadata, **example.plain_fields()}


_RBAC = "rbac.authorization.k8s.io/v1"
EXAMPLES: tuple[KindExample, ...] = (
    KindExample(api_version="v1", kind="ConfigMap", plural="configmaps", make_fields=make_config_map, weight=4),
    KindExample(api_version="v1", kind="Secret", plural="secrets", make_fields=make_secret, weight=3),
    KindExample(
        api_version="v1",
        kind="Pod",
        plural="pods",
        make_fields=lambda rng: {"spec": make_pod_spec(rng)},
        make_status=make_pod_status,
        weight=12,
    ),
    KindExample(
        api_version="v1",
        kind="Service",
        plural="services",
        make_fields=make_service,
        make_status=make_service_status,
        weight=5,
    ),
    KindExample(api_version="v1", kind="ServiceAccount", plural="serviceaccounts", make_fields=make_service_account),
    KindExample(
        api_version="v1",
        kind="PersistentVolumeClaim",
        plural="persistentvolumeclaims",
        make_fields=make_claim,
        make_status=make_claim_status,
    ),
    KindExample(api_version="v1", kind="Event", plural="events", make_fields=make_event, weight=1),
    KindExample(api_version="events.k8s.io/v1", kind="Event", plural="events", make_fields=make_new_event, weight=1),
    KindExample(
        api_version="v1",
        kind="Namespace",
        plural="namespaces",
        make_fields=make_namespace_spec,
        make_status=make_namespace_status,
        namespaced=False,
        weight=1,
    ),
    KindExample(
        api_version="v1", kind="ResourceQuota", plural="resourcequotas", make_fields=make_resource_quota, is_dry=True
    ),
    KindExample(api_version="v1", kind="LimitRange", plural="limitranges", make_fields=make_limit_range, is_dry=True),
    KindExample(
        api_version="apps/v1",
        kind="Deployment",
        plural="deployments",
        make_fields=make_deployment,
        make_status=make_deployment_status,
        has_scale=True,
        weight=3,
    ),
    KindExample(
        api_version="apps/v1",
        kind="ReplicaSet",
        plural="replicasets",
        make_fields=make_replica_set,
        make_status=make_replica_set_status,
        has_scale=True,
    ),
    KindExample(
        api_version="apps/v1", kind="ControllerRevision", plural="controllerrevisions", make_fields=make_revision
    ),
    KindExample(
        api_version="batch/v1", kind="Job", plural="jobs", make_fields=make_job, make_status=make_job_status, weight=3
    ),
    KindExample(api_version="coordination.k8s.io/v1", kind="Lease", plural="leases", make_fields=make_lease),
    KindExample(
        api_version="policy/v1",
        kind="PodDisruptionBudget",
        plural="poddisruptionbudgets",
        make_fields=make_budget,
        make_status=make_budget_status,
    ),
    KindExample(
        api_version="scheduling.k8s.io/v1",
        kind="PriorityClass",
        plural="priorityclasses",
        make_fields=make_priority_class,
        namespaced=False,
    ),
    KindExample(api_version=_RBAC, kind="Role", plural="roles", make_fields=make_role),
    KindExample(
        api_version=_RBAC, kind="ClusterRole", plural="clusterroles", make_fields=make_cluster_role, namespaced=False
    ),
    KindExample(api_version=_RBAC, kind="RoleBinding", plural="rolebindings", make_fields=make_role_binding),
    KindExample(
        api_version=_RBAC,
        kind="ClusterRoleBinding",
        plural="clusterrolebindings",
        make_fields=make_cluster_role_binding,
        namespaced=False,
        weight=1,
    ),
    KindExample(
        api_version="discovery.k8s.io/v1",
        kind="EndpointSlice",
        plural="endpointslices",
        make_fields=make_endpoint_slice,
    ),
    KindExample(
        api_version="apiextensions.k8s.io/v1",
        kind="CustomResourceDefinition",
        plural="customresourcedefinitions",
        make_fields=make_new_crd,
        namespaced=False,
        fixed_name=f"gadgets.{RUN}.example.org",
        is_dry=True,
    ),
    KindExample(
        api_version="apiextensions.k8s.io/v1",
        kind="CustomResourceDefinition",
        plural="customresourcedefinitions",
        make_fields=make_installed_crd,
        make_status=make_crd_status,
        namespaced=False,
        fixed_name="gadgets.example.org",
        is_dry=True,
    ),
    KindExample(
        api_version="admissionregistration.k8s.io/v1",
        kind="ValidatingAdmissionPolicy",
        plural="validatingadmissionpolicies",
        make_fields=make_policy,
        make_status=make_policy_status,
        namespaced=False,
        is_dry=True,
    ),
    KindExample(
        api_version="admissionregistration.k8s.io/v1",
        kind="ValidatingAdmissionPolicyBinding",
        plural="validatingadmissionpolicybindings",
        make_fields=make_binding,
        namespaced=False,
        is_dry=True,
    ),
    KindExample(
        api_version="example.org/v1",
        kind="Gadget",
        plural="gadgets",
        make_fields=lambda rng: {"spec": make_gadget_spec(rng)},
        make_status=make_gadget_status,
        has_scale=True,
        weight=8,
    ),
    KindExample(
        api_version="example.org/v1beta1",
        kind="Gadget",
        plural="gadgets",
        make_fields=lambda rng: {"spec": make_gadget_spec(rng)},
        make_status=make_gadget_status,
        has_scale=True,
        weight=2,
    ),
)


def select_examples(plurals: str) -> tuple[KindExample, ...]:
    """Return the examples of the kinds with some plurals, separated by commas; of all kinds if there are none."""
    names = {name for name in plurals.split(",") if name}
    if unknown := names - {example.plural for example in EXAMPLES}:
        raise SystemExit(f"--kinds: no such kinds in the campaign: {', '.join(sorted(unknown))}")
    return tuple(example for example in EXAMPLES if not names or example.plural in names)

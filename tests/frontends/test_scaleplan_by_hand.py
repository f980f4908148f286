"""Plans as people have written them for years: all are taken by a cluster, and understood."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import yaml

from pliant.errors import InvalidSpec
from pliant.frontends.frontend import PlanFrontend, required_crds
from pliant.frontends.scaleplan import ScalePlanFrontend
from pliant.model.scale_plans import PlanGroupRequest, PlanPhase, PlanPodRequest, PlanStatus
from tests.builders import NOON
from tests.frontends.elasticjob import EJ
from tests.frontends.test_scaleplan import accepted, raw_plan

HEAD = "apiVersion: elastic.iml.github.io/v1alpha1\nkind: ScalePlan\n"
WRITTEN = {
    "more workers": """
metadata:
  name: plan-0
  labels: {elasticjob.dlrover/name: clicks, scale-type: manual}
spec:
  ownerJob: clicks
  replicaResourceSpecs:
    worker: {replicas: 2}
""",
    "fewer servers, with the old label": """
metadata:
  name: plan-1
  labels: {elasticjob-name: clicks, scale-type: manual}
spec:
  ownerJob: clicks
  replicaResourceSpecs:
    ps: {replicas: 1}
""",
    "a label that names another job": """
metadata:
  name: plan-2
  labels: {elasticjob-name: other, scale-type: manual}
spec:
  ownerJob: clicks
  replicaResourceSpecs:
    ps: {replicas: 2}
""",
    "a larger server": """
metadata:
  name: plan-3
  labels: {elasticjob-name: clicks, scale-type: manual}
spec:
  migratePods:
    - name: clicks-edljob-ps-0
      resource: {cpu: "2", memory: 4Gi}
""",
    "sizes, and larger pods under other names": """
metadata:
  name: plan-4
spec:
  ownerJob: clicks
  replicaResourceSpecs:
    ps: {replicas: 1, resource: {cpu: "0.5", memory: 256Mi}}
  migratePods:
    - name: clicks_job-ps-0
      resource: {cpu: 4, memory: 1024Mi}
  manualScaling: true
""",
    "nobody's": """
metadata:
  name: plan-5
  labels: {scale-type: manual}
spec:
  replicaResourceSpecs:
    worker: {replicas: 1}
""",
}
UNDERSTOOD: dict[str, tuple[str, dict[str, PlanGroupRequest], tuple[PlanPodRequest, ...]]] = {
    "more workers": ("clicks", {"worker": PlanGroupRequest(size=2)}, ()),
    "fewer servers, with the old label": ("clicks", {"ps": PlanGroupRequest(size=1)}, ()),
    "a label that names another job": ("clicks", {"ps": PlanGroupRequest(size=2)}, ()),
    "a larger server": (
        "clicks",
        {},
        (PlanPodRequest(group="ps", name="clicks-edljob-ps-0", id=0, resources={"cpu": "2", "memory": "4Gi"}),),
    ),
    "sizes, and larger pods under other names": (
        "clicks",
        {"ps": PlanGroupRequest(size=1, resources={"cpu": "0.5", "memory": "256Mi"})},
        (PlanPodRequest(group="ps", name="clicks_job-ps-0", id=0, resources={"cpu": "4", "memory": "1024Mi"}),),
    ),
    "nobody's": ("", {"worker": PlanGroupRequest(size=1)}, ()),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_a_plan_by_hand_is_understood(case: str) -> None:
    raw = yaml.safe_load(HEAD + WRITTEN[case])
    plan = ScalePlanFrontend().parse(raw)
    assert accepted(raw)
    assert plan.is_manual
    assert plan.parse_error == ""
    assert (ScalePlanFrontend().owner_job_name(raw), plan.group_requests, plan.migrate_pods) == UNDERSTOOD[case]


@pytest.mark.parametrize("amount", [True, -1, -0.5, float(2**70), [], {}, "1 Gi", "-1", "²"])
def test_what_is_no_amount_is_named(amount: Any) -> None:
    raw = raw_plan(createPods=[{"type": "ps", "resource": {"cpu": 1, "memory": amount}}])
    assert (
        ScalePlanFrontend().parse(raw).parse_error.startswith("spec.createPods[0].resource.memory: must be a quantity")
    )


@pytest.mark.parametrize("amount", [None, "", 0, 0.0, "0", "0Mi", "0.0"])
def test_nothing_of_something_is_not_asked_for(amount: Any) -> None:
    [pod] = ScalePlanFrontend().parse(raw_plan(createPods=[{"type": "ps", "resource": {"memory": amount}}])).create_pods
    assert pod.resources == {}


def test_plans_come_with_their_kind_of_jobs() -> None:
    assert isinstance(EJ.plan_frontend, PlanFrontend)
    assert [crd["spec"]["names"]["plural"] for crd in required_crds(EJ)] == ["elasticjobs", "scaleplans"]
    news = PlanStatus(phase=PlanPhase.FAILED, message=str(InvalidSpec("spec", "is odd")), at=NOON + timedelta(hours=1))
    assert EJ.plan_frontend.render_status(news, {})["finishTime"] == "2026-01-01T13:00:00Z"

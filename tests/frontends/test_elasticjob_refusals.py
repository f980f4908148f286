from __future__ import annotations

from typing import Any

import pytest

from pliant.errors import InvalidSpec
from pliant.model.labels import replica_service_name
from tests.frontends.elasticjob import EJ, parsed, raw_ej, role

LONG = "a" * 37


def test_a_name_may_have_37_characters() -> None:
    job = parsed(name=LONG)
    assert len(replica_service_name(job, "dlrover-master", 0)) == 63


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no types": ({"replicaSpecs": None}, "spec.replicaSpecs: is required"),
    "no workers": ({"replicaSpecs": {}}, "spec.replicaSpecs.worker: is required: a job has workers"),
    "a strategy of another name": (
        {"distributionStrategy": "ParameterServers"},
        (
            'spec.distributionStrategy: "ParameterServers" is not one of ParameterServerStrategy,'
            " AllreduceStrategy; did you mean ParameterServerStrategy?"
        ),
    ),
    "a strategy that our master does not know": (
        {"distributionStrategy": "CustomStrategy"},
        'spec.distributionStrategy: "CustomStrategy" is not one of ParameterServerStrategy, AllreduceStrategy',
    ),
    "limits that are no amounts": (
        {"resourceLimits": {"cpu": "nan"}},
        'spec.resourceLimits.cpu: must be a quantity such as 500m or 4Gi, got "nan"',
    ),
    "limits below nothing": (
        {"resourceLimits": {"memory": "-5"}},
        'spec.resourceLimits.memory: must be a quantity such as 500m or 4Gi, got "-5"',
    ),
    "fewer than none": (
        {"replicaSpecs": {"worker": role(-1)}},
        "spec.replicaSpecs.worker.replicas: must be 0 or more, got -1",
    ),
    "bounds that cross": (
        {"replicaSpecs": {"worker": role(minReplicas=3, maxReplicas=2)}},
        "spec.replicaSpecs.worker.minReplicas: must be at most maxReplicas (2), got 3",
    ),
    "no template": ({"replicaSpecs": {"worker": {"replicas": 1}}}, "spec.replicaSpecs.worker.template: is required"),
    "no containers": (
        {"replicaSpecs": {"worker": role(pod={"containers": []})}},
        "spec.replicaSpecs.worker.template.spec.containers: needs at least one container",
    ),
    "a master without containers": (
        {"replicaSpecs": {"worker": role(), "dlrover-master": {"template": {"spec": {"containers": []}}}}},
        "spec.replicaSpecs.dlrover-master.template.spec.containers: needs at least one container",
    ),
    "resources that are none": (
        {"replicaSpecs": {"worker": role(pod={"containers": [{"name": "main", "resources": {"limits": "2"}}]})}},
        'spec.replicaSpecs.worker.template.spec.containers[0].resources.limits: must be a mapping, got "2"',
    ),
    "an unknown priority": (
        {"replicaSpecs": {"worker": role(priority="urgent")}},
        (
            "spec.replicaSpecs.worker.priority: must be high, low or a fraction between 0 and 1 such as 0.5,"
            ' got "urgent"; for other classes set priorityClassName in the template'
        ),
    ),
    "a type in other letters": (
        {"replicaSpecs": {"Worker": role()}},
        (
            'spec.replicaSpecs.Worker: "Worker" is not one of worker, ps, chief, evaluator, dlrover-master;'
            " did you mean worker?"
        ),
    ),
    "annotations that are numbers": (
        {"replicaSpecs": {"worker": {"template": {"metadata": {"annotations": {"a": 4}}, "spec": role()}}}},
        "spec.replicaSpecs.worker.template.metadata.annotations.a: must be a string, got 4",
    ),
    "a name that begins with a digit": (
        {"name": "1st"},
        (
            'metadata.name: "1st" must start with a letter and contain only lower-case letters, digits '
            "and '-':"
            " service names begin with it"
        ),
    ),
    "a name of 38 characters": (
        {"name": f"{LONG}a"},
        (
            f'metadata.name: is too long: the service name "elasticjob-{LONG}a-dlrover-master" has 64 characters'
            " (maximum: 63); shorten it by 1"
        ),
    ),
    "a word for leftovers that nobody knows": (
        {"annotations": {"pliant/clean": "al"}},
        'metadata.annotations.pliant/clean: "al" is not one of all, running, none; did you mean all?',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_refused_by_its_place(case: str) -> None:
    fields, said = REFUSED[case]
    with pytest.raises(InvalidSpec) as refused:
        EJ.parse(raw_ej(**fields))
    assert str(refused.value) == said


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("pliant.master/job_name", "another", "must be removed"),
        ("pliant.master/namespace", "theirs", "must be removed"),
        ("pliant.master/port", "1", "must be removed"),
        ("pliant.master/help", "", "must be removed"),
        ("pliant.master/x", "--job_name=another", "must not begin with a dash"),
        ("pending_timeout", "-h", "must not begin with a dash"),
    ],
)
def test_annotations_turn_no_master_to_another_job(key: str, value: str, problem: str) -> None:
    with pytest.raises(InvalidSpec, match=problem) as refused:
        parsed(annotations={key: value})
    assert str(refused.value).startswith(f"metadata.annotations.{key}: ")

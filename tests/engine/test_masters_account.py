"""Under which account a job's own master runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pliant.frameworks import resolve_framework
from pliant.model.actions import CheckMasterAccess, CreatePod, GrantMasterAccess
from pliant.model.observed import Observed
from tests.builders import NOON, StoredJob, decide_stored
from tests.engine.mastered import MASTER, elastic_job
from tests.engine.rulings import actions_of

OURS = "elasticjob-demo-dlrover-master"


Access = GrantMasterAccess | CheckMasterAccess


def begun(job: StoredJob) -> tuple[Access, dict[str, Any]]:
    """What is done for the account of a master when its job begins, and the spec of its pod, which comes second."""
    decision = decide_stored(job, Observed(), resolve_framework(job), NOON)
    access, pod = (each for each in actions_of(decision) if isinstance(each, Access | CreatePod))
    assert isinstance(access, Access)
    assert isinstance(pod, CreatePod)
    return access, dict(pod.manifest["spec"])


def with_account(job: StoredJob, **fields: str) -> StoredJob:
    [master] = [group for group in job.groups if group.name == MASTER]
    template = {**master.template, "spec": {**master.template["spec"], **fields}}
    others = [group for group in job.groups if group is not master]
    return replace(job, groups=(replace(master, template=template), *others))


def test_a_master_runs_under_an_account_that_is_made_for_it() -> None:
    grant, pod = begun(elastic_job())
    assert grant == GrantMasterAccess(service_account=OURS)
    assert pod["serviceAccountName"] == OURS


def test_an_account_that_its_author_names_is_checked_and_neither_made_nor_given_anything() -> None:
    for field in ("serviceAccountName", "serviceAccount"):
        grant, pod = begun(with_account(elastic_job(), **{field: "people"}))
        assert grant == CheckMasterAccess(service_account="people")
        assert pod["serviceAccountName"] == "people"

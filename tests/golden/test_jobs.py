"""`<kind>/<case>.in.yaml` is what a user writes, `<case>.out.yaml` what Pliant understands by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pliant.embedded.schema import Schema
from pliant.engine.pods.manifests import job_service_manifest, pod_manifest, service_manifest
from pliant.engine.pods.shared_environment import build_shared_environment
from pliant.frontends import FRONTENDS
from pliant.model.framework import Rank
from pliant.model.job import Job, ReplicaGroup
from pliant.model.labels import rank_own_service
from pliant.plugins.registry import framework_of
from tests.golden.files import check_golden, yaml_text
from tests.golden.plain_data import set_fields

HERE = Path(__file__).parent
CASES = sorted(HERE.glob("*/*.in.yaml"))


@pytest.mark.parametrize("case", CASES, ids=[case.name.removesuffix(".in.yaml") for case in CASES])
def test_a_job_is_understood_as_recorded(case: Path) -> None:
    raw = yaml.safe_load(case.read_text())
    frontend = FRONTENDS[raw["apiVersion"].split("/")[0], raw["kind"]]
    job = frontend.parse(raw)
    check_golden(case.with_name(case.name.replace(".in.", ".out.")), yaml_text(understood(job)))


@pytest.mark.parametrize("case", CASES, ids=[case.name.removesuffix(".in.yaml") for case in CASES])
def test_a_cluster_takes_the_job_as_it_is_written(case: Path) -> None:
    raw = yaml.safe_load(case.read_text())
    crd = FRONTENDS[raw["apiVersion"].split("/")[0], raw["kind"]].crd()
    schema = Schema.compile(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    assert schema.prune(raw) == []
    assert schema.validate(raw) == []


def understood(job: Job) -> dict[str, Any]:
    """Return what the job says beyond its defaults, with the first pod and service of every group."""
    return {
        **set_fields(job, without=("groups", "owner", "created_at")),
        **({"service": job_service_manifest(job)} if job.naming.job_service else {}),
        "groups": [_group(job, group) for group in job.groups],
    }


def _group(job: Job, group: ReplicaGroup) -> dict[str, Any]:
    rank = Rank(group=group, index=0, attempt=0)
    pod = pod_manifest(build_shared_environment(job, framework_of(job)), rank)
    service = {"service": service_manifest(job, rank)} if rank_own_service(job, rank) else {}
    return {**set_fields(group, without=("template", "template_hash", "path")), "pod": pod, **service}

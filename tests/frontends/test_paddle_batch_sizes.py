"""Which sizes of PaddleJobs of batch.paddlepaddle.org may change, and how members learn of it."""

from __future__ import annotations

from typing import Any

import pytest

from pliant.frontends.status.engine_state import dump_state
from pliant.model.job import ResizeMode
from pliant.model.state import EngineState, JobPhase
from tests.builders import NOON
from tests.frontends.paddle_batch import group_of, parsed, role, told

JOIN, RESTART, HOLD = ResizeMode.JOIN, ResizeMode.RESTART, ResizeMode.FIXED
ETCD = {"pliant/elastic-server": "etcd:2379"}
SERVED = {"containers": [{"name": "main", "env": [{"name": "PADDLE_ELASTIC_SERVER", "value": "etcd:2379"}]}]}
SOUGHT = {"containers": [{"name": "main", "env": [{"name": "PADDLE_ELASTIC_SERVER", "valueFrom": {}}]}]}


@pytest.mark.parametrize(
    ("spec", "way", "bounds", "is_automatic"),
    [
        ({"worker": role(2)}, HOLD, (0, None), False),
        ({"worker": role(2, requests=1)}, HOLD, (0, None), False),
        ({"worker": role(2, requests=0, limits=0)}, HOLD, (0, None), False),
        ({"elastic": 0, "worker": role(2)}, RESTART, (1, None), False),
        ({"elastic": 1, "worker": role(2, requests=2)}, RESTART, (2, None), False),
        ({"worker": role(2, limits=4)}, RESTART, (1, 4), False),
        ({"worker": role(2, requests=1, limits=4)}, RESTART, (1, 4), True),
        ({"elastic": 1, "worker": role(2, requests=2, limits=2)}, RESTART, (2, 2), False),
        ({"elastic": 1, "ps": role(), "worker": role(2, requests=1, limits=4)}, RESTART, (1, 4), True),
        ({"annotations": ETCD, "elastic": 1, "worker": role(2)}, RESTART, (1, None), False),
        ({"annotations": ETCD, "worker": role(2, limits=4)}, JOIN, (1, 4), False),
        ({"worker": role(2, pod=SERVED, requests=2, limits=4)}, JOIN, (2, 4), True),
        ({"worker": role(2, pod=SOUGHT, limits=4)}, RESTART, (1, 4), False),
        ({"annotations": ETCD, "ps": role(), "worker": role(2, limits=4)}, RESTART, (1, 4), False),
    ],
)
def test_sizes_may_change_as_far_as_members_can_be_told(
    spec: dict[str, Any], way: ResizeMode, bounds: tuple[int, int | None], is_automatic: bool
) -> None:
    job = parsed(**spec)
    worker = group_of(job)
    assert (worker.resize_mode, (worker.min_size, worker.max_size), worker.is_autoscaled) == (way, bounds, is_automatic)
    assert bool(worker.fixed_size_reason) is (way is HOLD)
    assert job.scalable_group == ("" if way is HOLD else "worker")
    assert job.framework_options.get("elastic_server", "") == ("etcd:2379" if way is JOIN else "")
    assert ("PADDLE_ELASTIC_SERVER" in told(job, "worker")) is (way is JOIN)
    assert ("PADDLE_TRAINERS_NUM" in told(job, "worker")) is (way is not JOIN)


def test_annotations_say_more_about_elastic_workers() -> None:
    job = parsed(
        annotations={"pliant/autoscale": "off", "pliant/resize": "fixed"}, worker=role(2, requests=1, limits=4)
    )
    assert (group_of(job).is_autoscaled, group_of(job).resize_mode) == (False, HOLD)


def test_a_job_at_rest_may_get_any_size() -> None:
    resting = {"pliant": dump_state(EngineState(phase=JobPhase.SUSPENDED, started_at=NOON))}
    worker = group_of(parsed(worker=role(3), suspend=True, status=resting))
    assert (worker.resize_mode, worker.fixed_size_reason) == (JOIN, "")


@pytest.mark.parametrize(
    ("spec", "warnings"),
    [
        ({"worker": role(2, requests=1, limits=4), "annotations": ETCD}, []),
        ({"worker": role(), "schedulingPolicy": {"queue": "night"}}, []),
        (
            {"worker": role(), "schedulingPolicy": {"minAvailable": 2}},
            ["spec.schedulingPolicy.minAvailable is ignored: Pliant creates no PodGroup"],
        ),
        ({"worker": role(), "ps": role(limits=4)}, ["spec.ps: requests and limits are ignored"]),
        ({"worker": role(), "elastic": 1, "annotations": ETCD}, ["spec.worker.limits is not set: the etcd"]),
        ({"worker": role(limits=2), "ps": role(), "annotations": ETCD}, ["the job has roles other than worker"]),
    ],
)
def test_an_author_is_told_what_is_not_done(spec: dict[str, Any], warnings: list[str]) -> None:
    told = parsed(**spec).warnings
    assert len(told) == len(warnings)
    assert all(said.startswith(begun) for said, begun in zip(told, warnings, strict=True))

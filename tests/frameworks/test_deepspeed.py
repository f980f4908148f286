from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pliant.frameworks.pytorch import DeepSpeed
from tests.builders import make_group
from tests.frameworks.contracts import told, written_for

LINE = re.compile(r"^(\S+)\s+slots=(\d+)$")
"""What DeepSpeed understands."""


def test_torchrun_is_told_all_it_needs() -> None:
    plain, deep = written_for("pytorch", master=1, worker=1), written_for("deepspeed", master=1, worker=1)
    assert told(deep, "worker") == told(plain, "worker")


def test_hosts_are_listed_in_the_order_of_their_ranks() -> None:
    job = written_for("deepspeed", worker=2, master=1)
    assert DeepSpeed().files(job)["hostfile"] == (
        "bert-master-0 slots=1\nbert-worker-0 slots=1\nbert-worker-1 slots=1\n"
    )


@pytest.mark.parametrize(
    ("options", "slots"), [({}, "4"), ({"nproc_per_node": "2"}, "2"), ({"nproc_per_node": "gpu"}, "4")]
)
def test_a_host_has_as_many_slots_as_it_has_gpus_unless_it_is_told(options: dict[str, str], slots: str) -> None:
    limits = {"limits": {"nvidia.com/gpu": 4, "cpu": "1"}}
    template = {"spec": {"containers": [{"name": "trainer", "resources": limits}, {"name": "sidecar"}]}}
    workers = replace(make_group("worker", 2), template=template)
    lines = DeepSpeed().files(written_for("deepspeed", workers, options=options))["hostfile"].splitlines()
    assert [match[2] for line in lines if (match := LINE.match(line))] == [slots, slots]


def test_an_empty_list_is_no_file() -> None:
    assert DeepSpeed().files(written_for("deepspeed", worker=0)) == {}

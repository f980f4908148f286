from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pliant import elastic
from tests.elastic.operator_server import OperatorServer, serve_operator
from tests.elastic.programs import ELASTIC_VARIABLES


@pytest.fixture
def operator() -> Iterator[OperatorServer]:
    with serve_operator() as server:
        yield server


@pytest.fixture
def run_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory that a container shares with its preStop hook."""
    monkeypatch.setattr(elastic, "RUN_DIRECTORY", str(tmp_path))
    return tmp_path


def close_job(job: elastic.Job) -> None:
    """End the threads of a job; its server must be able to respond, or be gone."""
    job._departure.restore_handler()
    job.close()
    if job._watch._thread is not None:
        job._watch._thread.join()


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[elastic.Job]:
    """A job of this process; with the operator if the test also uses the fixture `operator`."""
    for name in ELASTIC_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(elastic, "MIN_REPORT_INTERVAL", 0.05)
    if "run_directory" not in request.fixturenames:
        monkeypatch.setattr(elastic, "RUN_DIRECTORY", "/nonexistent")
    operator = request.getfixturevalue("operator") if "operator" in request.fixturenames else None
    if operator is not None:
        for name, value in operator.environment.items():
            monkeypatch.setenv(name, value)
    job = elastic.Job()
    yield job
    job._watch.close()
    if operator is not None:
        operator.publish(answer=(503, b"the test has ended"))
    close_job(job)

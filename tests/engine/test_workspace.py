"""Of the annotations of a job, its pods get the one with their working directory."""

from __future__ import annotations

from pliant.engine.decide import decide
from pliant.frontends import FRONTENDS
from pliant.model.actions import Act, CreatePod
from pliant.model.labels import WORKSPACE_ANNOTATION
from pliant.model.observed import Observed
from pliant.model.state import EngineState, JobPhase
from pliant.plugins.registry import framework_of
from tests.builders import NOON
from tests.frontends import kubeflow


def test_pods_get_the_working_directory_of_their_job_and_no_other_annotation() -> None:
    manifest = kubeflow.raw_of("PyTorchJob", {"Master": 1, "Worker": 1})
    annotations = {WORKSPACE_ANNOTATION: "/home/ada/job", "example.org/team": "vision"}
    manifest = {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}
    job = FRONTENDS["kubeflow.org", "PyTorchJob"].parse(manifest)
    state = EngineState(phase=JobPhase.CREATING, started_at=NOON)
    decision = decide(job, state, Observed(), framework_of(job), NOON)
    assert isinstance(decision, Act)
    pods = [action.manifest["metadata"] for action in decision.actions if isinstance(action, CreatePod)]
    assert [pod["annotations"].get(WORKSPACE_ANNOTATION) for pod in pods] == ["/home/ada/job"] * 2
    assert not any("example.org/team" in pod["annotations"] for pod in pods)

"""Kinds and frameworks that packages add: used if they can be, named in one line if not."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from pliant.frameworks import FRAMEWORKS
from pliant.frontends import FRONTENDS
from pliant.frontends.dl.mpba import MpbaMXJob
from pliant.plugins import DLJob, DLReplica, Framework
from pliant.plugins.entry_points import FRAMEWORK_GROUP, KIND_GROUP, PluginEntryPoint
from pliant.plugins.registry import PluginRegistry, build_registry, framework_of, get_plugin_registry, registered_kinds


class HelloJob(DLJob):
    """A job that says hello."""

    job_type = "HelloJob"
    group = "example.com"
    replica_types = ("worker",)

    def get_environment_variables(self, replica: DLReplica) -> Mapping[str, str]:
        return {"HELLO": replica.name}


class Hello(Framework):
    name = "hello"
    aliases = ("hi",)


def offered(thing: object, group: str = KIND_GROUP) -> PluginEntryPoint:
    return PluginEntryPoint(group=group, name="hello", package="hello-kind 0.1", load=lambda: thing)


def test_a_class_becomes_a_kind_and_a_framework() -> None:
    found = build_registry([offered(HelloJob)])
    assert found.skipped_plugin_messages == []
    assert found.loaded_plugins == ["hello of hello-kind 0.1"]
    assert found.kinds["example.com", "HelloJob"].plural == "hellojobs"
    assert found.frameworks["hellojob.example.com"].name == "hellojob.example.com"


def test_what_is_made_already_is_taken_as_it_is() -> None:
    ready = HelloJob()
    assert build_registry([offered(ready)]).kinds["example.com", "HelloJob"] is ready


def test_a_framework_is_known_by_all_its_words() -> None:
    found = build_registry([offered(Hello, FRAMEWORK_GROUP)])
    assert found.frameworks["hello"] is found.frameworks["hi"]


def test_a_kind_may_build_on_the_framework_of_another_package() -> None:
    class Built(HelloJob):
        frameworks = ("hello",)

    assert build_registry([offered(Hello, FRAMEWORK_GROUP), offered(Built)]).skipped_plugin_messages == []
    assert build_registry([offered(Built)]).skipped_plugin_messages == [
        "plugin hello of hello-kind 0.1 is skipped: it requires the framework `hello`, which is not installed"
    ]


class Impostor(HelloJob):
    job_type = "PyTorchJob"
    group = "kubeflow.org"


class Pretender(Framework):
    name = "mine"
    aliases = ("pytorch",)


class Shouting(Framework):
    name = "LOUD"


class Misnamed(HelloJob):
    def crd(self) -> dict[str, Any]:
        return {"metadata": {"name": "others.example.com"}}


def absent() -> object:
    return import_module("no_such_module")


def leaving() -> object:
    sys.exit("I will not\nbe imported")


BROKEN: dict[str, tuple[PluginEntryPoint, str]] = {
    "taken kind": (offered(Impostor), "kind PyTorchJob of kubeflow.org already exists, provided by Pliant"),
    "taken framework": (offered(Pretender, FRAMEWORK_GROUP), "framework `pytorch` already exists, provided by Pliant"),
    "no module": (
        PluginEntryPoint(group=KIND_GROUP, name="hello", package="hello-kind 0.1", load=absent),
        "ModuleNotFoundError: No module named 'no_such_module'",
    ),
    "an exit": (
        PluginEntryPoint(group=KIND_GROUP, name="hello", package="hello-kind 0.1", load=leaving),
        "SystemExit: I will not be imported",
    ),
    "no kind": (offered(dict), "dict is not a kind: derive it from pliant.plugins.DLJob or Frontend"),
    "a framework among kinds": (offered(Hello), "Hello is not a kind"),
    "a kind among frameworks": (offered(HelloJob, FRAMEWORK_GROUP), "HelloJob is not a framework"),
    "no name": (offered(Shouting, FRAMEWORK_GROUP), "Shouting must have a non-empty name in lower case, got 'LOUD'"),
    "half a class": (offered(DLJob), "DLJob: job_type must be a kind such as MyJob, got ''"),
    "another definition": (offered(Misnamed), "the CRD of HelloJob is named others.example.com"),
}


@pytest.mark.parametrize(("offer", "why"), BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_used_is_named_in_one_line_and_changes_nothing(offer: PluginEntryPoint, why: str) -> None:
    found = build_registry([offer])
    [problem] = found.skipped_plugin_messages
    assert problem.startswith(f"plugin hello of hello-kind 0.1 is skipped: {why}")
    assert "\n" not in problem
    assert found.kinds == dict(FRONTENDS)
    assert found.frameworks.items() >= FRAMEWORKS.items()
    assert found.loaded_plugins == []


def test_of_two_that_want_one_name_the_first_has_it() -> None:
    [problem] = build_registry([offered(HelloJob), offered(HelloJob)]).skipped_plugin_messages
    assert problem.endswith("kind HelloJob of example.com already exists, provided by hello-kind 0.1")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path of Python, in which a package is installed that offers something broken."""
    info = tmp_path / "broken_kind-0.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-kind\nVersion: 0.2\n")
    (info / "entry_points.txt").write_text("[pliant.kinds]\nbroken = broken_kind:Broken\n")
    (tmp_path / "broken_kind.py").write_text("raise RuntimeError('not today')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    get_plugin_registry.cache_clear()
    yield tmp_path
    get_plugin_registry.cache_clear()


def test_installed_packages_are_looked_for_once_and_a_broken_one_is_told_once(
    package: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert registered_kinds() == FRONTENDS
    assert registered_kinds() is get_plugin_registry().kinds
    assert isinstance(get_plugin_registry(), PluginRegistry)
    assert caplog.messages == ["plugin broken of broken-kind 0.2 is skipped: RuntimeError: not today"]
    (package / "broken_kind.py").write_text("raise SystemExit\n")
    assert get_plugin_registry().skipped_plugin_messages == caplog.messages


def test_our_own_kinds_have_their_contracts() -> None:
    template = {"spec": {"containers": [{"name": "main"}]}}
    every = [{"replicaType": kind, "template": template} for kind in MpbaMXJob.replica_types]
    job = MpbaMXJob().parse({"metadata": {"name": "demo"}, "spec": every})
    assert framework_of(job).name == "mxnet+mxjob.mpba.fbk.eu"

"""The files of config/ and manifests/: what `pliant install` prints, for kubectl and kustomize."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.cli.cluster.operator_manifests import (
    OPERATOR_NAME,
    OperatorInstallation,
    crd_manifests,
    operator_deployment_manifests,
    operator_namespace_manifests,
)
from pliant.cli.input.kinds_option import choose_kinds
from pliant.cli.output.manifest_yaml import dump_manifest

HEADER = "# Made by `make manifests`; `pliant install` prints the same.\n"
PADDLE_HEADER = """\
# Made by `make manifests`: the operator for the kinds of paddlepaddle.org. With the definitions in this folder it
# is what `pliant install --kinds paddle` prints. Set `image` to one that your nodes can pull, then:
#   kubectl create -f manifests/
"""
PADDLE_OPERATOR = "pliant-operator.yaml"
"""kubectl reads a folder in alphabetical order: this file comes after the definitions that the operator needs."""
Manifest = dict[str, Any]

RBAC_FILES = {
    ("ServiceAccount", OPERATOR_NAME): "service_account",
    ("Role", f"{OPERATOR_NAME}-lease"): "leader_election_role",
    ("RoleBinding", f"{OPERATOR_NAME}-lease"): "leader_election_role_binding",
    ("ClusterRole", f"{OPERATOR_NAME}.{OperatorInstallation().namespace}"): "role",
    ("ClusterRole", f"pliant-view.{OperatorInstallation().namespace}"): "viewer_role",
    ("ClusterRole", f"pliant-edit.{OperatorInstallation().namespace}"): "editor_role",
    ("ClusterRoleBinding", f"{OPERATOR_NAME}.{OperatorInstallation().namespace}"): "role_binding",
}
"""What each account, role and binding is kept under; one that is not listed goes by its name."""
RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


def render_config() -> dict[str, str]:
    """Return the text of every generated file of config/, by its path there."""
    chosen = OperatorInstallation()
    rights = [each for each in operator_deployment_manifests(chosen) if each["kind"] in RIGHTS]
    manager = [
        *operator_namespace_manifests(chosen),
        *(each for each in operator_deployment_manifests(chosen) if each["kind"] not in RIGHTS),
    ]
    files = {
        **{f"crd/bases/{definition_file(crd)}": dump_manifest(crd) for crd in crd_manifests()},
        **{f"rbac/{_rbac_file(each)}": dump_manifest(each) for each in rights},
        "manager/manager.yaml": _documents(manager),
    }
    return {path: HEADER + text for path, text in (files | dict(_kustomizations(files))).items()}


def render_manifests() -> dict[str, str]:
    """Return the text of every generated file of manifests/, by its name."""
    chosen = OperatorInstallation(frontends=choose_kinds(["paddle"]))
    return {
        PADDLE_OPERATOR: PADDLE_HEADER
        + _documents([*operator_namespace_manifests(chosen), *operator_deployment_manifests(chosen)])
    }


def manifest_links() -> dict[str, str]:
    """Return the symbolic links of manifests/ and what they point at: definitions have one copy, in config/."""
    names = [definition_file(crd) for crd in crd_manifests(choose_kinds(["paddle"]))]
    return {name: f"../config/crd/bases/{name}" for name in names}


def definition_file(crd: Manifest) -> str:
    """The file of a definition: `elasticdeeplearning.ai_aitrainingjobs.yaml`."""
    return f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml"


def _documents(manifests: list[Manifest]) -> str:
    return "".join(f"---\n{dump_manifest(each)}" for each in manifests)


def _rbac_file(manifest: Manifest) -> str:
    name = manifest["metadata"]["name"]
    return f"{RBAC_FILES.get((manifest['kind'], name), name)}.yaml"


def _kustomizations(files: dict[str, str]) -> Iterator[tuple[str, str]]:
    """For each folder the list of its files; `default` is all of them, in the order in which they are needed."""
    for folder in ("crd", "rbac", "manager"):
        inside = sorted(path.removeprefix(f"{folder}/") for path in files if path.startswith(f"{folder}/"))
        yield f"{folder}/kustomization.yaml", _kustomization(inside)
    yield "default/kustomization.yaml", _kustomization(["../crd", "../manager", "../rbac"])


def _kustomization(resources: list[str]) -> str:
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return dump_manifest({**head, "resources": resources})

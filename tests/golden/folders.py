"""The folders of config/: all that `pliant install` prints, one idea a file, as kubectl and kustomize take it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.cli.installation import NAME, Installation, definitions, operator, place
from tests.golden.files import yaml_text

HEADER = "# Made by `make manifests`; `pliant install` prints the same.\n"
Manifest = dict[str, Any]

RBAC_FILES = {
    ("ServiceAccount", NAME): "service_account",
    ("Role", f"{NAME}-lease"): "leader_election_role",
    ("RoleBinding", f"{NAME}-lease"): "leader_election_role_binding",
    ("ClusterRole", f"{NAME}.{Installation().namespace}"): "role",
    ("ClusterRole", f"pliant-view.{Installation().namespace}"): "viewer_role",
    ("ClusterRole", f"pliant-edit.{Installation().namespace}"): "editor_role",
    ("ClusterRoleBinding", f"{NAME}.{Installation().namespace}"): "role_binding",
}
"""What each account, role and binding is kept under; one that is not listed goes by its name."""
RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


def rendered() -> dict[str, str]:
    """Every file that is made, by its path below config/."""
    chosen = Installation()
    rights = [each for each in operator(chosen) if each["kind"] in RIGHTS]
    manager = [*place(chosen), *(each for each in operator(chosen) if each["kind"] not in RIGHTS)]
    files = {
        **{f"crd/bases/{definition_file(crd)}": yaml_text(crd) for crd in definitions()},
        **{f"rbac/{_rbac_file(each)}": yaml_text(each) for each in rights},
        "manager/manager.yaml": "".join(f"---\n{yaml_text(each)}" for each in manager),
    }
    return {path: HEADER + text for path, text in (files | dict(_kustomizations(files))).items()}


def definition_file(crd: Manifest) -> str:
    """The file of a definition: `elasticdeeplearning.ai_aitrainingjobs.yaml`."""
    return f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml"


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
    return yaml_text({**head, "resources": resources})

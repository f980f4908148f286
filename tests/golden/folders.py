"""The files of config/ and manifests/: what `pliant install` prints, for kubectl and kustomize."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.cli.installation import NAME, Installation, definitions, operator, place
from pliant.cli.kinds import choose_kinds
from pliant.cli.manifest_yaml import manifest_text

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


def render_config() -> dict[str, str]:
    """Return the text of every generated file of config/, by its path there."""
    chosen = Installation()
    rights = [each for each in operator(chosen) if each["kind"] in RIGHTS]
    manager = [*place(chosen), *(each for each in operator(chosen) if each["kind"] not in RIGHTS)]
    files = {
        **{f"crd/bases/{definition_file(crd)}": manifest_text(crd) for crd in definitions()},
        **{f"rbac/{_rbac_file(each)}": manifest_text(each) for each in rights},
        "manager/manager.yaml": _documents(manager),
    }
    return {path: HEADER + text for path, text in (files | dict(_kustomizations(files))).items()}


def render_manifests() -> dict[str, str]:
    """Return the text of every generated file of manifests/, by its name."""
    chosen = Installation(frontends=choose_kinds(["paddle"]))
    return {PADDLE_OPERATOR: PADDLE_HEADER + _documents([*place(chosen), *operator(chosen)])}


def manifest_links() -> dict[str, str]:
    """Return the symbolic links of manifests/ and what they point at: definitions have one copy, in config/."""
    names = [definition_file(crd) for crd in definitions(choose_kinds(["paddle"]))]
    return {name: f"../config/crd/bases/{name}" for name in names}


def definition_file(crd: Manifest) -> str:
    """The file of a definition: `elasticdeeplearning.ai_aitrainingjobs.yaml`."""
    return f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml"


def _documents(manifests: list[Manifest]) -> str:
    return "".join(f"---\n{manifest_text(each)}" for each in manifests)


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
    return manifest_text({**head, "resources": resources})

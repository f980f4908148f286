"""Checks of the commands that create, read, change and delete objects."""

from __future__ import annotations

import json

from tests.clients.kubectl.session import Kubectl, Object, config_map, manifest, widget


def apply(kubectl: Kubectl) -> None:
    assert kubectl.apply(config_map("applied", a="1")) == "configmap/applied created\n"
    assert kubectl.apply(config_map("applied", a="1")) == "configmap/applied unchanged\n"
    assert kubectl.apply(config_map("applied", b="2")) == "configmap/applied configured\n"
    assert kubectl.field("cm/applied", ".data") == '{"b":"2"}'
    assert kubectl.apply(widget("applied", 2)) == "widget.example.org/applied created\n"
    assert kubectl.apply(widget("applied", 3)) == "widget.example.org/applied configured\n"


def apply_what_get_prints(kubectl: Kubectl) -> None:
    kubectl.apply(*(config_map(name, {"round": "trip"}, a="1") for name in ("round-a", "round-b")))
    for words in (("cm/round-a",), ("cm", "-l", "round=trip")):
        again = kubectl("apply", "-f", "-", stdin=kubectl("get", *words, "-o", "yaml"))
        assert "configmap/round-a" in again
    assert kubectl.field("cm/round-a", ".data.a") == "1"


def apply_server_side(kubectl: Kubectl) -> None:
    words, ours = ("apply", "--server-side", "-f", "-"), manifest(config_map("ssa", a="1"))
    assert kubectl(*words, stdin=ours) == "configmap/ssa serverside-applied\n"
    kubectl("patch", "cm", "ssa", "-p", '{"data": {"a": "2"}}')
    conflict = kubectl.error(*words, stdin=ours)
    assert "Apply failed with 1 conflict" in conflict
    assert ".data.a" in conflict
    kubectl(*words, "--force-conflicts", stdin=ours)
    assert kubectl.field("cm/ssa", ".data.a") == "1"


def apply_and_prune(kubectl: Kubectl) -> None:
    labels = {"prune": "here"}
    kubectl.apply(config_map("kept", labels), config_map("pruned", labels))
    words = ("apply", "--prune", "-l", "prune=here", "-f", "-")
    assert "configmap/pruned pruned" in kubectl(*words, stdin=manifest(config_map("kept", labels)))
    assert kubectl("get", "cm", "-l", "prune=here", "-o", "name") == "configmap/kept\n"
    kubectl.apply(config_map("pruned", labels))
    listed = (*words, "--prune-allowlist=core/v1/ConfigMap")
    assert "configmap/pruned pruned" in kubectl(*listed, stdin=manifest(config_map("kept", labels)))


def apply_and_prune_a_set(kubectl: Kubectl) -> None:
    words, env = ("apply", "--prune", "--applyset=my-set", "-f", "-"), {"KUBECTL_APPLYSET": "true"}
    kubectl(*words, stdin=manifest(config_map("member-a"), config_map("member-b")), env=env)
    assert "configmap/member-b pruned" in kubectl(*words, stdin=manifest(config_map("member-a")), env=env)
    groups = kubectl.field("secret/my-set", r".metadata.annotations.applyset\.kubernetes\.io/contains-group-kinds")
    assert groups == "ConfigMap"


def refuse_an_unknown_kind(kubectl: Kubectl) -> None:
    nothing: Object = {"apiVersion": "nowhere.org/v1", "kind": "Nothing", "metadata": {"name": "a"}}
    error = kubectl.error("apply", "-f", "-", stdin=manifest(nothing))
    assert 'no matches for kind "Nothing" in version "nowhere.org/v1"\nensure CRDs are installed first' in error


def refuse_an_unsupported_kind(kubectl: Kubectl) -> None:
    stateful_set = manifest({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "a"}, "spec": {}})
    for words in (("apply",), ("apply", "--server-side"), ("create",), ("diff",)):
        error = kubectl.error(*words, "-f", "-", stdin=stateful_set)
        assert "StatefulSet is not supported by the embedded cluster: no controller runs it" in error, words
    assert 'statefulsets.apps "a" not found' in kubectl.error("delete", "-f", "-", stdin=stateful_set)
    kubectl("delete", "--ignore-not-found", "-f", "-", stdin=stateful_set)
    ingress = kubectl.error("create", "ingress", "none", "--rule=a.org/*=a:80")
    assert "error: failed to create ingress: Ingress is not supported by the embedded cluster" in ingress
    cron_job = kubectl.error("create", "cronjob", "none", "--image=none", "--schedule=* * * * *")
    assert "error: failed to create cronjob: CronJob is not supported by the embedded cluster" in cron_job
    assert kubectl("get", "statefulsets,ingresses,persistentvolumes", "--ignore-not-found") == ""
    kubectl("get", "all")
    assert "StatefulSet is not supported by the embedded cluster" in kubectl("explain", "statefulset")


def validate_fields(kubectl: Kubectl) -> None:
    odd: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "odd"}, "datta": {"a": "b"}}
    strict = kubectl.error("apply", "--validate=strict", "-f", "-", stdin=manifest(odd))
    assert 'strict decoding error: unknown field "datta"' in strict
    warned = kubectl.run("apply", "--validate=warn", "-f", "-", stdin=manifest(odd))
    assert (warned.out, warned.err) == ("configmap/odd created\n", 'Warning: unknown field "datta"\n')
    ignored = kubectl.run("apply", "--validate=ignore", "-f", "-", stdin=manifest(odd))
    assert (ignored.code, ignored.err) == (0, "")
    # kubectl validates the items of a List itself, by OpenAPI v2.
    listed = kubectl.error("apply", "-f", "-", stdin=manifest({"apiVersion": "v1", "kind": "List", "items": [odd]}))
    assert 'ValidationError(ConfigMap): unknown field "datta" in io.k8s.api.core.v1.ConfigMap' in listed


def apply_a_kustomization(kubectl: Kubectl) -> None:
    folder = kubectl.home / f"kustomize-{kubectl.version}"
    folder.mkdir(exist_ok=True)
    (folder / "map.yaml").write_text(manifest(config_map("base", a="1")))
    (folder / "kustomization.yaml").write_text("resources: [map.yaml]\nnamePrefix: my-\n")
    assert kubectl("apply", "-k", str(folder)) == "configmap/my-base created\n"


def show_what_was_applied(kubectl: Kubectl) -> None:
    kubectl.apply(config_map("last", a="1"))
    assert json.loads(kubectl("apply", "view-last-applied", "cm/last", "-o", "json"))["data"] == {"a": "1"}
    changed = manifest(config_map("last", a="2"))
    assert "configured" in kubectl("apply", "set-last-applied", "-f", "-", stdin=changed)
    assert json.loads(kubectl("apply", "view-last-applied", "cm/last", "-o", "json"))["data"] == {"a": "2"}


def diff(kubectl: Kubectl) -> None:
    kubectl.apply(config_map("differs", a="1"))
    assert kubectl("diff", "-f", "-", stdin=manifest(config_map("differs", a="1"))) == ""
    ended = kubectl.run("diff", "-f", "-", stdin=manifest(config_map("differs", a="2")))
    assert ended.code == 1
    assert '-  a: "1"\n+  a: "2"' in ended.out


def create_from_a_file(kubectl: Kubectl) -> None:
    generated: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}}
    names = {kubectl("create", "-f", "-", "-o", "name", stdin=manifest(generated)) for _ in range(2)}
    assert len(names) == 2
    assert all(name.startswith("configmap/made-") for name in names)
    kubectl("create", "--dry-run=server", "-f", "-", stdin=manifest(config_map("first")))
    kubectl("create", "-f", "-", stdin=manifest(config_map("first")))
    assert "already exists" in kubectl.error("create", "-f", "-", stdin=manifest(config_map("first")))


def create_by_options(kubectl: Kubectl) -> None:
    for kind, *words in (
        ("configmap", "form", "--from-literal=a=b"),
        ("secret", "generic", "form", "--from-literal=a=b"),
        ("secret", "docker-registry", "registry", "--docker-username=u", "--docker-password=p"),
        ("serviceaccount", "form"),
        ("service", "clusterip", "form", "--tcp=80:8080"),
        ("service", "externalname", "external", "--external-name=example.org"),
        ("service", "nodeport", "node-port", "--tcp=80"),
        ("role", "form", "--verb=get", "--resource=pods"),
        ("rolebinding", "form", "--role=form", "--serviceaccount=default:default"),
        ("poddisruptionbudget", "form", "--selector=a=b", "--min-available=1"),
        ("quota", "form", "--hard=pods=100"),
        ("namespace", f"{kubectl.namespace}-form"),
        ("clusterrole", f"{kubectl.namespace}-form", "--verb=get", "--resource=pods"),
        ("clusterrolebinding", f"{kubectl.namespace}-form", "--clusterrole=view", "--user=ada"),
        ("priorityclass", f"{kubectl.namespace}-form", "--value=5"),
    ):
        assert kubectl("create", kind, *words).endswith(" created\n")
    assert kubectl("create", "token", "form", "--duration=600s").count(".") == 2


def replace(kubectl: Kubectl) -> None:
    kubectl.apply(config_map("replaced", a="1"))
    uid = kubectl.field("cm/replaced", ".metadata.uid")
    kubectl("replace", "-f", "-", stdin=manifest(config_map("replaced", b="2")))
    assert kubectl.field("cm/replaced", ".data") == '{"b":"2"}'
    kubectl("replace", "--force", "-f", "-", stdin=manifest(config_map("replaced", c="3")))
    assert kubectl.field("cm/replaced", ".metadata.uid") != uid


def get(kubectl: Kubectl) -> None:
    kubectl.apply(widget("shown", 5), config_map("shown", {"shown": "here"}, a="1"))
    header, row = kubectl("get", "widgets", "shown").splitlines()
    assert (header.split()[:2], row.split()[:2]) == (["NAME", "SIZE"], ["shown", "5"])
    assert kubectl("get", "pods", "-o", "wide").split()[6:8] == ["NODE", "NOMINATED"]
    assert kubectl("get", "cm,widgets", "-l", "shown=here", "-o", "name") == "configmap/shown\n"
    assert "kind: Widget" in kubectl("get", "wd/shown", "-o", "yaml")
    assert json.loads(kubectl("get", "cm", "-o", "json"))["kind"] == "List"
    assert kubectl.field("cm/shown", ".data.a") == "1"
    assert kubectl("get", "cm/shown", "-o", "go-template={{.data.a}}") == "1"
    assert kubectl("get", "cm/shown", "-o", "custom-columns=A:.data.a", "--no-headers") == "1\n"
    everywhere = kubectl("get", "cm", "-A", "--field-selector=metadata.name=shown", "--sort-by=.metadata.namespace")
    assert kubectl.namespace in everywhere
    assert '(NotFound): configmaps "none" not found' in kubectl.error("get", "cm", "none")


def get_and_watch(kubectl: Kubectl) -> None:
    kubectl.apply(widget("watched", 1))
    with kubectl.following("get", "widgets", "watched", "-w") as watch:
        watch.until(r"watched\s+1\s")
        kubectl("patch", "widget", "watched", "--type=merge", "-p", '{"spec": {"size": 7}}')
        watch.until(r"watched\s+7\s")


def describe(kubectl: Kubectl) -> None:
    assert "Status:           Running" in kubectl("describe", "pod", "ticker")
    kubectl.apply(widget("described", 1))
    assert "Kind:         Widget" in kubectl("describe", "widget", "described")
    assert "Allocatable:" in kubectl("describe", "node", "node-0")


def label_and_annotate(kubectl: Kubectl) -> None:
    kubectl.apply(config_map("labeled"))
    kubectl("label", "cm", "labeled", "tier=gold")
    assert "already has a value" in kubectl.error("label", "cm", "labeled", "tier=silver")
    kubectl("label", "cm", "labeled", "tier=silver", "--overwrite")
    kubectl("annotate", "cm", "labeled", "note=hello")
    assert kubectl("get", "cm", "-l", "tier in (silver)", "-o", "name") == "configmap/labeled\n"
    kubectl("label", "cm", "labeled", "tier-")
    assert kubectl.field("cm/labeled", ".metadata.annotations.note") == "hello"


def patch(kubectl: Kubectl) -> None:
    kubectl.apply(config_map("patched", a="1"))
    kubectl("patch", "cm", "patched", "-p", '{"data": {"b": "2"}}')
    kubectl("patch", "cm", "patched", "--type=merge", "-p", '{"data": {"a": null}}')
    kubectl("patch", "cm", "patched", "--type=json", "-p", '[{"op": "add", "path": "/data/c", "value": "3"}]')
    assert json.loads(kubectl.field("cm/patched", ".data")) == {"b": "2", "c": "3"}
    kubectl.apply(widget("patched", 1))
    status = ("--subresource=status", "--type=merge", "-p", '{"status": {"phase": "Ready"}}')
    kubectl("patch", "widget", "patched", *status)
    assert kubectl.field("widget/patched", ".status.phase") == "Ready"


def edit(kubectl: Kubectl) -> None:
    kubectl.apply(config_map("edited", a="old"))
    edited = kubectl("edit", "cm", "edited", env={"KUBE_EDITOR": "sed -i s/old/new/"})
    assert edited == "configmap/edited edited\n"
    assert kubectl.field("cm/edited", ".data.a") == "new"


def scale(kubectl: Kubectl) -> None:
    kubectl.apply(widget("scaled", 1))
    assert kubectl("scale", "widget/scaled", "--replicas=4") == "widget.example.org/scaled scaled\n"
    assert kubectl.field("widget/scaled", ".spec.size") == "4"
    error = kubectl.error("scale", "widget/scaled", "--replicas=5", "--current-replicas=9")
    assert "Expected replicas to be 9, was 4" in error


def wait(kubectl: Kubectl) -> None:
    kubectl.apply(widget("awaited", 1))
    kubectl("wait", "pod/ticker", "--for=condition=Ready", "--timeout=10s")
    with kubectl.following("wait", "widget/awaited", "--for=jsonpath={.spec.size}=2", "--timeout=10s") as waiting:
        kubectl("patch", "widget", "awaited", "--type=merge", "-p", '{"spec": {"size": 2}}')
        waiting.until("condition met")
    with kubectl.following("wait", "widget/created", "--for=create", "--timeout=10s") as waiting:
        kubectl.apply(widget("created", 1))
        waiting.until("condition met")
    kubectl("delete", "widget", "awaited", "--wait=false")
    kubectl("wait", "widget/awaited", "--for=delete", "--timeout=10s")


def delete(kubectl: Kubectl) -> None:
    kubectl.apply(config_map("gone", {"gone": "soon"}), config_map("gone-too", {"gone": "soon"}))
    assert 'configmap "gone" deleted' in kubectl("delete", "cm", "gone")
    kubectl("delete", "cm", "-l", "gone=soon")
    assert kubectl("delete", "cm", "gone", "--ignore-not-found") == ""
    metadata = {"name": "held", "finalizers": ["example.org/hold"]}
    kubectl.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    kubectl("delete", "cm", "held", "--wait=false")
    assert kubectl.field("cm/held", ".metadata.deletionTimestamp")
    kubectl("patch", "cm", "held", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
    assert kubectl("get", "cm", "held", "--ignore-not-found") == ""


def delete_dependents(kubectl: Kubectl) -> None:
    for policy, remains in (("orphan", True), ("foreground", False), ("background", False)):
        kubectl.apply(widget(f"owner-{policy}", 1))
        uid = kubectl.field(f"widget/owner-{policy}", ".metadata.uid")
        owner = {"apiVersion": "example.org/v1", "kind": "Widget", "name": f"owner-{policy}", "uid": uid}
        name = f"dependent-{policy}"
        metadata = {"name": name, "ownerReferences": [{**owner, "blockOwnerDeletion": True}]}
        kubectl.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        kubectl("delete", "widget", f"owner-{policy}", f"--cascade={policy}")
        if not remains:
            kubectl("wait", f"cm/{name}", "--for=delete", "--timeout=10s")
        assert bool(kubectl("get", "cm", name, "--ignore-not-found")) is remains

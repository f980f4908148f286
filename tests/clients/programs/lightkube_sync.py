"""lightkube, synchronous."""

from lightkube import ApiError, Client
from lightkube.resources.core_v1 import ConfigMap, Pod
from lightkube.types import PatchType

from manifests import attempts, config_map, passed, pod

NAME = "lightkube"
client = Client()


def work_on_objects() -> None:
    listed = client.list(ConfigMap, namespace="default")
    list(listed)
    version = listed.resourceVersion
    created = client.create(ConfigMap.from_dict(config_map(NAME)), namespace="default")
    passed("create")
    assert [each.metadata.name for each in client.list(ConfigMap, labels={"program": NAME}, chunk_size=1)] == [NAME]
    passed("list")
    for kind in (PatchType.STRATEGIC, PatchType.MERGE):
        patched = client.patch(ConfigMap, NAME, {"data": {"a": kind.name}}, namespace="default", patch_type=kind)
        assert patched.data == {"a": kind.name}
    passed("patch")
    created.metadata.resourceVersion = None
    created.data = {"replaced": "1"}
    assert client.replace(created).data == {"replaced": "1"}
    passed("replace")
    client.delete(ConfigMap, NAME, namespace="default")
    try:
        client.get(ConfigMap, NAME, namespace="default")
        raise AssertionError("the object is not deleted")
    except ApiError as error:
        assert (error.status.code, error.status.reason) == (404, "NotFound")
    passed("delete")
    types = []
    for event, _ in client.watch(ConfigMap, namespace="default", labels={"program": NAME}, resource_version=version):
        types.append(event)
        if event == "DELETED":
            break
    assert types == ["ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"], types
    passed("watch")
    applied = client.apply(ConfigMap.from_dict(config_map(NAME)), namespace="default", field_manager=NAME)
    assert applied.data == {"a": "1"}
    client.delete(ConfigMap, NAME, namespace="default")
    passed("server-side apply")


def work_on_pod() -> None:
    client.create(Pod.from_dict(pod(NAME)), namespace="default")
    client.wait(Pod, NAME, for_conditions=["Ready"], namespace="default")
    for _ in attempts("the pod listens"):
        if "listening\n" in list(client.log(NAME, namespace="default")):
            break
    passed("logs")
    command = ["sh", "-c", "cat; echo out; echo err >&2; exit 3"]
    ran = client.exec(NAME, namespace="default", command=command, stdin="typed\n", stdout=True, stderr=True)
    assert (ran.stdout, ran.stderr, ran.exit_code) == ("typed\nout\n", "err\n", 3), ran
    passed("exec")
    client.delete(Pod, NAME, namespace="default")


work_on_objects()
work_on_pod()

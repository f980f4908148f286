"""The official client, synchronous."""

from kubernetes import client, config, dynamic, watch
from kubernetes.client.rest import ApiException
from kubernetes.stream import portforward, stream

from manifests import attempts, config_map, echo_through, passed, pod

NAME = "kubernetes-sync"
config.load_kube_config()
core = client.CoreV1Api()


def work_on_objects() -> None:
    version = core.list_namespaced_config_map("default").metadata.resource_version
    core.create_namespaced_config_map("default", config_map(NAME))
    passed("create")
    found = core.list_namespaced_config_map("default", label_selector=f"program={NAME}", limit=1)
    assert [each.metadata.name for each in found.items] == [NAME]
    passed("list")
    patched = core.patch_namespaced_config_map(NAME, "default", {"data": {"a": "2"}})
    assert patched.data == {"a": "2"}
    passed("patch")
    patched.data["b"] = "3"
    assert core.replace_namespaced_config_map(NAME, "default", patched).data == {"a": "2", "b": "3"}
    passed("replace")
    core.delete_namespaced_config_map(NAME, "default")
    try:
        core.read_namespaced_config_map(NAME, "default")
        raise AssertionError("the object is not deleted")
    except ApiException as error:
        assert error.status == 404
    passed("delete")
    types = []
    options = {"resource_version": version, "label_selector": f"program={NAME}", "timeout_seconds": 20}
    for event in watch.Watch().stream(core.list_namespaced_config_map, "default", **options):
        types.append(event["type"])
        if event["type"] == "DELETED":
            break
    assert types == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"], types
    passed("watch")
    resource = dynamic.DynamicClient(client.ApiClient()).resources.get(api_version="v1", kind="ConfigMap")
    applied = resource.server_side_apply(config_map(NAME), name=NAME, namespace="default", field_manager=NAME)
    assert applied.metadata.managedFields[0].manager == NAME
    resource.delete(name=NAME, namespace="default")
    passed("server-side apply")


def work_on_pod() -> None:
    core.create_namespaced_pod("default", pod(NAME))
    for _ in attempts("the pod listens"):
        if core.read_namespaced_pod(NAME, "default").status.phase == "Running" and "listening" in (
            core.read_namespaced_pod_log(NAME, "default")
        ):
            break
    passed("logs")
    connect = core.connect_get_namespaced_pod_exec
    options = {"stdout": True, "stderr": True, "stdin": True, "tty": False}
    command = ["sh", "-c", "read word; echo out $word; echo err >&2; exit 3"]
    session = stream(connect, NAME, "default", command=command, _preload_content=False, **options)
    session.write_stdin("typed\n")
    session.run_forever(timeout=30)
    assert (session.read_stdout(), session.read_stderr(), session.returncode) == ("out typed\n", "err\n", 3)
    passed("exec")
    forward = portforward(core.connect_get_namespaced_pod_portforward, NAME, "default", ports="8000")
    assert echo_through(forward.socket(8000)) == b"echo hello"
    assert forward.error(8000) is None
    passed("port-forward")
    core.delete_namespaced_pod(NAME, "default")


work_on_objects()
work_on_pod()

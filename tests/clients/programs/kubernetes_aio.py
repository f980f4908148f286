"""The official asynchronous client, or kubernetes_asyncio, which has the same interface."""

import asyncio
import sys

from manifests import LIMIT_SECONDS, config_map, passed, pod

if sys.argv[1:] == ["kubernetes_asyncio"]:
    from kubernetes_asyncio import client, config, watch
    from kubernetes_asyncio.client.rest import ApiException
    from kubernetes_asyncio.stream import WsApiClient
else:
    from kubernetes.aio import client, config, watch
    from kubernetes.aio.client.rest import ApiException
    from kubernetes.aio.stream import WsApiClient

NAME = "-".join(["aio", *sys.argv[1:]]).replace("_", "-")


async def work_on_objects(core: client.CoreV1Api) -> None:
    version = (await core.list_namespaced_config_map("default")).metadata.resource_version
    await core.create_namespaced_config_map("default", config_map(NAME))
    passed("create")
    found = await core.list_namespaced_config_map("default", label_selector=f"program={NAME}", limit=1)
    assert [each.metadata.name for each in found.items] == [NAME]
    passed("list")
    patched = await core.patch_namespaced_config_map(NAME, "default", {"data": {"a": "2"}})
    assert patched.data == {"a": "2"}
    passed("patch")
    patched.data["b"] = "3"
    assert (await core.replace_namespaced_config_map(NAME, "default", patched)).data == {"a": "2", "b": "3"}
    passed("replace")
    await core.delete_namespaced_config_map(NAME, "default")
    try:
        await core.read_namespaced_config_map(NAME, "default")
        raise AssertionError("the object is not deleted")
    except ApiException as error:
        assert error.status == 404
    passed("delete")
    types = []
    options = {"resource_version": version, "label_selector": f"program={NAME}", "timeout_seconds": 20}
    async with watch.Watch().stream(core.list_namespaced_config_map, "default", **options) as events:
        async for event in events:
            types.append(event["type"])
            if event["type"] == "DELETED":
                break
    assert types == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"], types
    passed("watch")


async def work_on_pod(core: client.CoreV1Api) -> None:
    await core.create_namespaced_pod("default", pod(NAME))
    async with asyncio.timeout(LIMIT_SECONDS):
        while (await core.read_namespaced_pod(NAME, "default")).status.phase != "Running":
            await asyncio.sleep(0.05)
        while "listening" not in await core.read_namespaced_pod_log(NAME, "default"):
            await asyncio.sleep(0.05)
    passed("logs")
    async with WsApiClient() as session:
        connect = client.CoreV1Api(api_client=session).connect_get_namespaced_pod_exec
        options = {"stdout": True, "stderr": True, "stdin": False, "tty": False}
        answer = await connect(NAME, "default", command=["sh", "-c", "echo out; echo err >&2"], **options)
    assert sorted(answer.splitlines()) == ["err", "out"], answer
    passed("exec")
    await core.delete_namespaced_pod(NAME, "default")


async def main() -> None:
    await config.load_kube_config()
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        await work_on_objects(core)
        await work_on_pod(core)


asyncio.run(main())

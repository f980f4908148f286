"""kr8s, synchronous."""

import threading

import kr8s
from kr8s.objects import ConfigMap, Pod

from manifests import attempts, config_map, echo_at, passed, pod

NAME = "kr8s-sync"
api = kr8s.api()


def work_on_objects() -> None:
    types: list[str] = []
    is_watching, is_deleted = threading.Event(), threading.Event()

    def watch() -> None:
        is_watching.set()
        for event, _ in api.watch("configmaps", namespace="default", label_selector=f"program={NAME}"):
            types.append(event)
            if event == "DELETED":
                is_deleted.set()
                return

    threading.Thread(target=watch, daemon=True).start()
    is_watching.wait()
    config = ConfigMap(config_map(NAME), namespace="default")
    config.create()
    passed("create")
    found = list(kr8s.get("configmaps", namespace="default", label_selector={"program": NAME}))
    assert [each.name for each in found] == [NAME]
    passed("list")
    for _ in attempts("the watch has the object"):
        if types:
            break
    config.patch({"data": {"a": "2"}})
    config.label({"more": "yes"})
    config.refresh()
    assert (config.raw["data"], config.labels["more"]) == ({"a": "2"}, "yes")
    passed("patch")
    config.delete()
    assert not config.exists()
    passed("delete")
    assert is_deleted.wait(30)
    assert (types[0], types[-1]) == ("ADDED", "DELETED"), types
    passed("watch")


def work_on_pod() -> None:
    server = Pod(pod(NAME), namespace="default")
    server.create()
    server.wait("condition=Ready", timeout=60)
    for _ in attempts("the pod listens"):
        if "listening" in list(server.logs()):
            break
    passed("logs")
    ran = server.exec(["sh", "-c", "echo out; echo err >&2; exit 3"], check=False)
    assert (ran.stdout, ran.stderr, ran.returncode) == (b"out\n", b"err\n", 3), ran
    passed("exec")
    with server.portforward(8000, local_port="auto") as port:
        assert echo_at(port) == b"echo hello"
    passed("port-forward")
    server.delete()


work_on_objects()
work_on_pod()

"""Real control planes for tests: etcd, kube-apiserver and controllers on the loopback interface."""

from __future__ import annotations

import http.client
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from signal import SIGKILL

from pliant.runtime.clock import SystemClock
from tests.controlplane import kubelet
from tests.controlplane.authority import Authority, write_kubeconfig, write_signing_key
from tests.controlplane.etcd import Etcd
from tests.controlplane.processes import Processes, supervised
from tests.controlplane.programs import find_programs

ETCD = "etcd"
API_SERVER = "kube-apiserver"
CONTROLLERS = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
KWOK = "kwok"
NODE = "node"
STAGES = Path(__file__).with_name("kwok.yaml")
ADMINISTRATORS = "system:masters"
PATIENCE = 60.0
"""Seconds after which a program that should have come up is taken to hang."""
_POLL_SECONDS = 0.02


class ControlPlane:
    """A control plane that is up; its parts can be stopped and started."""

    def __init__(self, processes: Processes, flags: Sequence[str] = ()) -> None:
        self.processes = processes
        self.folder = processes.folder
        self.authority = Authority(SystemClock().now())
        self.etcd = Etcd(self.folder / "etcd.sock")
        self._flags = tuple(flags)
        self._port = _reserved_port()
        self._tls: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        """Where the API is."""
        return f"https://127.0.0.1:{self._port.getsockname()[1]}"

    @property
    def kubeconfig(self) -> Path:
        """Lets an administrator in."""
        return self.folder / "kubeconfig"

    def kubeconfig_for(self, user: str, *groups: str, lifetime: timedelta = timedelta(days=1)) -> Path:
        """Lets somebody else in, who may do nothing until a role says so; a negative lifetime is over already."""
        who = self.authority.user(user, groups, lifetime)
        return write_kubeconfig(self.folder / f"kubeconfig-{user}", self.url, self.authority.certificate, who)

    def kubeconfig_with(self, token: str) -> Path:
        """Lets the bearer of a token in, such as a service account."""
        name = f"kubeconfig-{len(list(self.folder.iterdir()))}"
        return write_kubeconfig(self.folder / name, self.url, self.authority.certificate, token)

    def tls_for(self, user: str, *groups: str) -> ssl.SSLContext:
        """What somebody needs for a connection of their own making."""
        context = ssl.create_default_context(cadata=self.authority.certificate.decode())
        context.load_cert_chain(*self.authority.user(user, groups).write(self.folder, f"tls-{user}"))
        return context

    def start_etcd(self, *, durable: bool = False) -> None:
        """Start the storage, with what it had if it ran before; unless durable it trusts that machines stay up."""
        arguments = {
            "name": "test",
            "data-dir": self.folder / "etcd",
            "listen-client-urls": self.etcd.url,
            "listen-peer-urls": "unix://peer.sock",
            # Nobody uses these, but a member must have some.
            "advertise-client-urls": "http://127.0.0.1:2379",
            "initial-advertise-peer-urls": "http://127.0.0.1:2380",
            "initial-cluster": "test=http://127.0.0.1:2380",
            "unsafe-no-fsync": "false" if durable else "true",
            "log-level": "warn",
        }
        self._start(ETCD, arguments)
        self._wait(ETCD, self.etcd.is_up)

    def start_apiserver(self, *flags: str) -> None:
        """Start the API server, on the same port as before, and wait until it is ready."""
        self._start(API_SERVER, self._server_arguments(), *self._flags, *flags)
        self._wait(API_SERVER, lambda: self._is_ok("/readyz"))

    def stop_apiserver(self, number: int = SIGKILL) -> None:
        """End the API server; the rest goes on."""
        self.processes.stop(API_SERVER, number)

    def start_controllers(self, *flags: str) -> None:
        """Start the controllers; kinds made before are known to the garbage collector at once, others in 30 s."""
        arguments = {
            "service-account-private-key-file": self.folder / "tokens.key",
            "root-ca-file": self.folder / "ca.crt",
            # Each controller under its own account: the roles of a fresh cluster are made for that.
            "use-service-account-credentials": "true",
            # Nodes of tests send no heartbeats.
            "node-monitor-grace-period": "24h",
            # Nodes of tests fail when they are told to, and nobody should wait to hear of it.
            "node-monitor-period": "1s",
        }
        self._start_client(CONTROLLERS, "system:kube-controller-manager", arguments, *flags)
        # Without it no pod is admitted, so nothing is ready before it is there.
        self._wait(CONTROLLERS, lambda: self._is_ok("/api/v1/namespaces/default/serviceaccounts/default"))

    def start_scheduler(self, *flags: str) -> None:
        """Start the scheduler."""
        self._start_client(SCHEDULER, "system:kube-scheduler", {}, *flags)

    def start_node(self) -> None:
        """Start a node that runs pods as processes of this machine; it asks for controllers and a scheduler."""
        self.processes.start(NODE, [sys.executable, "-m", kubelet.__name__, self.folder])
        self._wait(NODE, lambda: kubelet.READY in self.processes.tail(NODE))

    def start_kwok(self) -> None:
        """Start the simulator of nodes: it plays every node with the annotation `kwok.x-k8s.io/node: fake`."""
        arguments = {
            "kubeconfig": self.kubeconfig_for("kwok", ADMINISTRATORS),
            "config": STAGES,
            "manage-nodes-with-annotation-selector": "kwok.x-k8s.io/node=fake",
            "node-lease-duration-seconds": "0",
        }
        self._start(KWOK, arguments)

    def prepare(self) -> None:
        """Write the files that the programs read."""
        (self.folder / "ca.crt").write_bytes(self.authority.certificate)
        self.authority.server().write(self.folder, "server")
        self.authority.user("kube-apiserver-kubelet-client", [ADMINISTRATORS]).write(self.folder, "kubelet-client")
        write_signing_key(self.folder / "tokens.key")
        admin = self.authority.user("kubernetes-admin", [ADMINISTRATORS])
        write_kubeconfig(self.kubeconfig, self.url, self.authority.certificate, admin)

    def close(self) -> None:
        """Give the port back."""
        self._port.close()

    def _start_client(self, name: str, user: str, arguments: Mapping[str, object], *flags: str) -> None:
        kubeconfig = self.kubeconfig_for(user)
        usual = {
            "kubeconfig": kubeconfig,
            "kube-api-qps": "500",
            "kube-api-burst": "500",
            "leader-elect": "false",
            "secure-port": "0",
            "profiling": "false",
        }
        self._start(name, {**usual, **arguments}, *flags)

    def _start(self, name: str, arguments: Mapping[str, object], *flags: str) -> None:
        words = [f"--{key}={value}" for key, value in arguments.items()]
        self.processes.start(name, [find_programs([name])[name], *words, *flags])

    def _server_arguments(self) -> dict[str, object]:
        folder = self.folder
        return {
            "etcd-servers": self.etcd.url,
            "secure-port": str(self._port.getsockname()[1]),
            "permit-port-sharing": "true",
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "endpoint-reconciler-type": "none",
            "tls-cert-file": folder / "server.crt",
            "tls-private-key-file": folder / "server.key",
            "client-ca-file": folder / "ca.crt",
            "kubelet-client-certificate": folder / "kubelet-client.crt",
            "kubelet-client-key": folder / "kubelet-client.key",
            "kubelet-certificate-authority": folder / "ca.crt",
            "kubelet-preferred-address-types": "InternalIP",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": folder / "tokens.key",
            "service-account-signing-key-file": folder / "tokens.key",
            "service-cluster-ip-range": "10.96.0.0/16",
            "authorization-mode": "Node,RBAC",
            "allow-privileged": "true",
            "profiling": "false",
        }

    def _is_ok(self, path: str) -> bool:
        """Whether an administrator is given what is there."""
        if self._tls is None:
            self._tls = self.tls_for("probe", ADMINISTRATORS)
        host, port = self._port.getsockname()
        connection = http.client.HTTPSConnection(host, port, timeout=5, context=self._tls)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == http.client.OK
        except OSError:
            return False
        finally:
            connection.close()

    def _wait(self, name: str, condition: Callable[[], bool]) -> None:
        limit = time.monotonic() + PATIENCE
        while not condition():
            if self.processes.ended(name) or time.monotonic() > limit:
                raise RuntimeError(f"{name} did not come up:\n{self.processes.tail(name)}")
            time.sleep(_POLL_SECONDS)


@contextmanager
def started(
    *, controllers: bool = True, scheduler: bool = False, durable: bool = False, flags: Sequence[str] = ()
) -> Iterator[ControlPlane]:
    """A control plane of our own; nothing of it is left afterwards, nor when this process is killed.

    `flags` go to the API server. Only if `durable` do its writes survive a power cut. Controllers that are not
    wanted now can be started later.
    """
    with supervised() as processes:
        plane = ControlPlane(processes, flags)
        try:
            plane.prepare()
            plane.start_etcd(durable=durable)
            plane.start_apiserver()
            if controllers:
                plane.start_controllers()
            if scheduler:
                plane.start_scheduler()
            yield plane
        finally:
            plane.close()


def _reserved_port() -> socket.socket:
    """A port that stays ours while the API server is down; it never listens, so nobody reaches it by mistake."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved

"""What the environment of each kind tells a replica, checked against the manifest: its rank, its address, its peers."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE = 60.0
"""Seconds in which all peers must have been met."""
ENV = os.environ
WORKER_PORT = 3333
"""Of the services of DLRover's workers: their environment names only the host of the first one."""


@dataclass(frozen=True)
class Peer:
    """Another replica, as the environment names it."""

    identity: str
    host: str
    port: int


@dataclass(frozen=True)
class Contract:
    """What the environment tells a replica."""

    identity: str
    port: int = 0
    """Where others expect it; 0 if nobody does."""
    peers: list[Peer] = field(default_factory=list)
    callers: set[str] = field(default_factory=set)
    """Who will say hello."""


@dataclass(frozen=True)
class Manifest:
    """What the sample says."""

    kind: str
    group: str
    sizes: dict[str, int]
    slots: int = 0

    @property
    def total(self) -> int:
        """All replicas of the job."""
        return sum(self.sizes.values())


class Violation(Exception):
    """The environment contradicts the sample, or somebody else answers."""


def check(is_true: bool, what: str) -> None:
    """End unless something is as it must be."""
    if not is_true:
        raise Violation(what)


def own_index() -> int:
    """The number at the end of the pod's name."""
    return int(socket.gethostname().rpartition("-")[2])


def expected_rank(sample: Manifest) -> int:
    """Masters come first, then workers."""
    before = 0 if sample.group == "Master" else sample.sizes.get("Master", 0)
    return before + own_index()


def star(centre: str, rank: int, total: int) -> Contract:
    """All know the address of rank 0."""
    host, _, port = centre.rpartition(":")
    others = {f"rank {number}" for number in range(1, total)}
    if rank == 0:
        return Contract("rank 0", int(port), callers=others)
    return Contract(f"rank {rank}", peers=[Peer("rank 0", host, int(port))])


def mesh(cluster: dict[str, list[str]], role: str, index: int) -> Contract:
    """All know the addresses of all."""
    identity = f"{role} {index}"
    everyone = [
        Peer(f"{each} {number}", address.rpartition(":")[0], int(address.rpartition(":")[2]))
        for each, addresses in cluster.items()
        for number, address in enumerate(addresses)
    ]
    check(
        len({(peer.host, peer.port) for peer in everyone}) == len(everyone), f"two replicas share an address: {cluster}"
    )
    [port] = [peer.port for peer in everyone if peer.identity == identity] or [0]
    peers = [peer for peer in everyone if peer.identity != identity]
    return Contract(identity, port, peers, {peer.identity for peer in peers} if port else set())


def gathering(endpoint: str, sample: Manifest) -> Contract:
    """All know the address of one and get their ranks there, so they introduce themselves by the names of pods."""
    host, _, port = endpoint.rpartition(":")
    name, centre = socket.gethostname(), host.partition(".")[0]
    if name != centre:
        return Contract(name, peers=[Peer(centre, host, int(port))])
    job = name.rsplit("-", 2)[0]
    names = {f"{job}-{group.lower()}-{number}" for group, size in sample.sizes.items() for number in range(size)}
    return Contract(name, int(port), callers=names - {name})


def pytorch(sample: Manifest) -> Contract:
    if "PET_RDZV_ENDPOINT" in ENV:
        lowest, _, highest = ENV["PET_NNODES"].partition(":")
        check(int(lowest) <= sample.total <= int(highest), f"{sample.total} not in PET_NNODES {ENV['PET_NNODES']}")
        return gathering(ENV["PET_RDZV_ENDPOINT"], sample)
    processes = int(ENV["PET_NPROC_PER_NODE"]) if ENV["PET_NPROC_PER_NODE"].isdigit() else 1
    check(int(ENV["WORLD_SIZE"]) == sample.total * processes, f"WORLD_SIZE {ENV['WORLD_SIZE']}")
    check(int(ENV["PET_NNODES"]) == sample.total, f"PET_NNODES {ENV['PET_NNODES']}")
    check(int(ENV["RANK"]) == int(ENV["PET_NODE_RANK"]) == expected_rank(sample), f"RANK {ENV['RANK']}")
    return star(f"{ENV['MASTER_ADDR']}:{ENV['MASTER_PORT']}", int(ENV["RANK"]), sample.total)


def jax(sample: Manifest) -> Contract:
    check(int(ENV["NUM_PROCESSES"]) == sample.total, f"NUM_PROCESSES {ENV['NUM_PROCESSES']}")
    check(int(ENV["PROCESS_ID"]) == expected_rank(sample), f"PROCESS_ID {ENV['PROCESS_ID']}")
    centre = f"{ENV['COORDINATOR_ADDRESS']}:{ENV['COORDINATOR_PORT']}"
    return star(centre, int(ENV["PROCESS_ID"]), sample.total)


def xgboost(sample: Manifest) -> Contract:
    check(int(ENV["WORLD_SIZE"]) == sample.total, f"WORLD_SIZE {ENV['WORLD_SIZE']}")
    check(int(ENV["RANK"]) == expected_rank(sample), f"RANK {ENV['RANK']}")
    if sample.total == 1:
        return Contract("rank 0")
    workers = ENV["WORKER_ADDRS"].split(",")
    check(len(workers) == sample.sizes["Worker"], f"WORKER_ADDRS {workers}")
    addresses = [f"{ENV['MASTER_ADDR']}:{ENV['MASTER_PORT']}", *(f"{each}:{ENV['WORKER_PORT']}" for each in workers)]
    return mesh({"rank": addresses}, "rank", int(ENV["RANK"]))


def tensorflow(sample: Manifest) -> Contract:
    if sample.total == 1:
        check("TF_CONFIG" not in ENV, "TF_CONFIG in a job of one replica")
        return Contract(f"{sample.group.lower()} 0")
    config = json.loads(ENV["TF_CONFIG"])
    sizes = {group.lower(): size for group, size in sample.sizes.items()}
    check({role: len(hosts) for role, hosts in config["cluster"].items()} == sizes, f"TF_CONFIG {config}")
    check(config["task"] == {"type": sample.group.lower(), "index": own_index()}, f"task {config['task']}")
    return mesh(config["cluster"], config["task"]["type"], config["task"]["index"])


def mxnet(sample: Manifest) -> Contract:
    config = json.loads(ENV["MX_CONFIG"])
    cluster = {role: [f"{each['url']}:{each['port']}" for each in found] for role, found in config["cluster"].items()}
    sizes = {group.lower(): size for group, size in sample.sizes.items()}
    check({role: len(found) for role, found in cluster.items()} == sizes, f"MX_CONFIG {config}")
    check(config["task"] == {"type": sample.group.lower(), "index": own_index()}, f"task {config['task']}")
    if "scheduler" in sizes:
        check(ENV["DMLC_ROLE"] == sample.group.lower(), f"DMLC_ROLE {ENV['DMLC_ROLE']}")
        counts = int(ENV["DMLC_NUM_SERVER"]), int(ENV["DMLC_NUM_WORKER"])
        check(counts == (sizes["server"], sizes["worker"]), f"DMLC_NUM_SERVER, DMLC_NUM_WORKER {counts}")
        root = f"{ENV['DMLC_PS_ROOT_URI']}:{ENV['DMLC_PS_ROOT_PORT']}"
        check(root == cluster["scheduler"][0], f"DMLC_PS_ROOT_URI {root}")
    return mesh(cluster, config["task"]["type"], config["task"]["index"])


def paddle(sample: Manifest) -> Contract:
    check(int(ENV["PADDLE_NNODES"]) == sample.total, f"PADDLE_NNODES {ENV['PADDLE_NNODES']}")
    return gathering(ENV["PADDLE_MASTER"], sample)


def paddle_batch(sample: Manifest) -> Contract:
    index, role = int(ENV["PADDLE_TRAINER_ID"]), ENV["TRAINING_ROLE"]
    check(index == own_index(), f"PADDLE_TRAINER_ID {index}")
    check(role == {"ps": "PSERVER", "worker": "TRAINER"}[sample.group], f"TRAINING_ROLE {role}")
    if "PADDLE_ELASTIC_NP" in ENV:
        check(int(ENV["PADDLE_ELASTIC_NP"]) == sample.total, f"PADDLE_ELASTIC_NP {ENV['PADDLE_ELASTIC_NP']}")
        return Contract(f"{role} {index}")
    cluster = {"TRAINER": ENV["PADDLE_TRAINER_ENDPOINTS"].split(",")}
    check(
        int(ENV["PADDLE_TRAINERS_NUM"]) == sample.sizes["worker"], f"PADDLE_TRAINERS_NUM {ENV['PADDLE_TRAINERS_NUM']}"
    )
    if "ps" in sample.sizes:
        cluster["PSERVER"] = ENV["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")
    counts = {"TRAINER": sample.sizes["worker"], "PSERVER": sample.sizes.get("ps", 0)}
    check(all(len(found) == counts[each] for each, found in cluster.items()), f"endpoints {cluster}")
    return mesh(cluster, role, index)


def paddle_fluid(sample: Manifest) -> Contract:
    role = ENV["PADDLE_TRAINING_ROLE"]
    servers = [f"{each}:{ENV['PADDLE_PSERVER_PORT']}" for each in ENV["PADDLE_PSERVER_IPS"].split(",")]
    check(len(servers) == sample.sizes["pserver"], f"PADDLE_PSERVER_IPS {servers}")
    check(int(ENV["PADDLE_TRAINERS"]) == sample.sizes["trainer"], f"PADDLE_TRAINERS {ENV['PADDLE_TRAINERS']}")
    if role == "TRAINER":
        index = int(ENV["PADDLE_TRAINER_ID"])
        check(index == own_index(), f"PADDLE_TRAINER_ID {index}")
        peers = [Peer(f"PSERVER {number}", *_split(address)) for number, address in enumerate(servers)]
        return Contract(f"TRAINER {index}", peers=peers)
    port = int(ENV["PADDLE_PSERVER_PORT"])
    return Contract(
        f"PSERVER {own_index()}", port, callers={f"TRAINER {each}" for each in range(sample.sizes["trainer"])}
    )


def elasticjob(sample: Manifest) -> Contract:
    rank = int(ENV["NODE_RANK"])
    check(ENV["NODE_TYPE"] == sample.group, f"NODE_TYPE {ENV['NODE_TYPE']}")
    with socket.create_connection(_split(ENV["DLROVER_MASTER_ADDR"]), PATIENCE):
        print("connected to the master", flush=True)
    if "TF_CONFIG" in ENV:
        config = json.loads(ENV["TF_CONFIG"])
        check(config["task"] == {"type": sample.group, "index": rank}, f"task {config['task']}")
        counts = {role: len(found) for role, found in config["cluster"].items()}
        check(all(counts[role] == size for role, size in sample.sizes.items()), f"TF_CONFIG {config}")
        return mesh(config["cluster"], config["task"]["type"], rank)
    check(int(ENV["NODE_NUM"]) == int(ENV["WORLD_SIZE"]) == sample.total, f"NODE_NUM {ENV['NODE_NUM']}")
    check(rank == int(ENV["RANK"]) < sample.total, f"NODE_RANK {rank}")
    return star(f"{ENV['RDZV_ENDPOINT']}:{WORKER_PORT}", rank, sample.total)


def mpi(sample: Manifest) -> Contract:
    """A launcher reaches its workers by their remote shell."""
    names = ("OMPI_MCA_orte_default_hostfile", "I_MPI_HYDRA_HOST_FILE", "HYDRA_HOST_FILE")
    agents = ("OMPI_MCA_plm_rsh_agent", "I_MPI_HYDRA_BOOTSTRAP_EXEC", "HYDRA_LAUNCHER_EXEC")
    [hostfile] = [ENV[name] for name in names if name in ENV]
    [agent] = [ENV[name] for name in agents if name in ENV]
    lines = Path(hostfile).read_text().split("\n")
    hosts = [line.replace(" slots=", ":").partition(":") for line in lines if line]
    check(len(hosts) == sample.sizes["Worker"], f"hostfile {hosts}")
    for number, (host, _, slots) in enumerate(hosts):
        check(int(slots) == sample.slots, f"slots of {host}: {slots}")
        answer = subprocess.run([agent, host, "hostname"], capture_output=True, text=True, timeout=PATIENCE)
        check(answer.stdout.strip().endswith(f"-worker-{number}"), f"{host} is {answer}")
        print(f"met {answer.stdout.strip()} at {host}", flush=True)
    found = subprocess.run(["/etc/mpi/discover_hosts.sh"], capture_output=True, text=True, timeout=PATIENCE)
    check(len(found.stdout.split()) == len(hosts), f"discover_hosts.sh: {found}")
    return Contract("launcher")


CONTRACTS: dict[str, Callable[[Manifest], Contract]] = {
    "PyTorchJob": pytorch,
    "JAXJob": jax,
    "XGBoostJob": xgboost,
    "TFJob": tensorflow,
    "MXJob": mxnet,
    "MPIJob": mpi,
    "PaddleJob": paddle,
    "PaddleJob.batch": paddle_batch,
    "PaddleJob.fluid": paddle_fluid,
    "ElasticJob": elasticjob,
}


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)

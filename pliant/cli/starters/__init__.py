"""Jobs to start from, one for each framework: who takes part, and how each kind writes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.resources import files

AITJ, KUBEFLOW, ELASTIC = "aitrainingjob", "kubeflow", "elasticjob"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How a kind of Kubeflow writes a framework's job."""

    kind: str
    specs: str
    container: str
    groups: tuple[tuple[str, int], ...]
    more: tuple[str, ...] = ()
    """Lines of the spec beside the groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """A job that runs as it is, where its library is there."""

    what: str
    needs: str = ""
    """What to install with pip."""
    image: str
    groups: tuple[tuple[str, int], ...] = (("worker", 2),)
    spec: tuple[str, ...] = ()
    """Lines of an AITrainingJob's spec beside the groups."""
    group: tuple[str, ...] = ("restartPolicy: OnFailure", "restartScope: All", "restartLimit: 3")
    """Lines of each of its groups."""
    pod: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    requests: dict[str, str] = field(default_factory=dict)
    """What each member asks for, where it should not be left to others to say."""
    command: str = "[python3, train.py]"
    kubeflow: Dialect | None = None
    kinds: tuple[str, ...] = (AITJ, KUBEFLOW)
    """Those it can be written in, the usual one first."""


STARTERS: dict[str, Starter] = {
    "generic": Starter(
        what="Two members of any program.",
        image="python:3.12-slim",
        kinds=(AITJ,),
        group=("restartPolicy: OnFailure", "restartScope: Pod", "restartLimit: 3"),
    ),
    "elastic": Starter(
        what="Two workers, or up to four, draw shards of data from the job's own master, and may come and go.",
        image="python:3.12-slim",
        kinds=(ELASTIC,),
        # A master would give a whole core to workers that ask for nothing.
        requests={"cpu": "100m", "memory": "64Mi"},
    ),
    "pytorch": Starter(
        what="Three members train one network with DistributedDataParallel over gloo; the master is rank 0.",
        needs="torch",
        image="pytorch/pytorch",
        groups=(("master", 1), ("worker", 2)),
        kubeflow=Dialect(
            kind="PyTorchJob",
            specs="pytorchReplicaSpecs",
            container="pytorch",
            groups=(("Master", 1), ("Worker", 2)),
        ),
    ),
    "tensorflow": Starter(
        what="ParameterServerStrategy: a chief directs two workers, and one server holds the weights.",
        needs="tensorflow",
        image="tensorflow/tensorflow",
        groups=(("chief", 1), ("ps", 1), ("worker", 2)),
        # Servers and workers never end by themselves: the chief's end is the job's.
        spec=("completePolicy: Any",),
        group=(),
        pod=("terminationGracePeriodSeconds: 1",),
        kubeflow=Dialect(
            kind="TFJob",
            specs="tfReplicaSpecs",
            container="tensorflow",
            groups=(("Chief", 1), ("PS", 1), ("Worker", 2)),
        ),
    ),
    "mxnet": Starter(
        what="A scheduler, a server and two workers share weights through a dist_sync key-value store.",
        needs="mxnet",
        image="mxnet/python",
        groups=(("scheduler", 1), ("server", 1), ("worker", 2)),
        group=(),
        kubeflow=Dialect(
            kind="MXJob",
            specs="mxReplicaSpecs",
            container="mxnet",
            groups=(("Scheduler", 1), ("Server", 1), ("Worker", 2)),
            more=("jobMode: MXTrain",),
        ),
    ),
    "paddle": Starter(
        what="Two trainers share one model with DataParallel over gloo.",
        needs="paddlepaddle",
        image="paddlepaddle/paddle",
        env={"PADDLE_DISTRI_BACKEND": "gloo"},
        kubeflow=Dialect(
            kind="PaddleJob", specs="paddleReplicaSpecs", container="paddle", groups=(("Worker", 2),)
        ),
    ),
    "jax": Starter(
        what="Two processes fit one line, each on half of the data; the first one also coordinates.",
        needs="jax",
        image="python:3.12-slim",
        kubeflow=Dialect(kind="JAXJob", specs="jaxReplicaSpecs", container="jax", groups=(("Worker", 2),)),
    ),
    "xgboost": Starter(
        what="Three members grow one forest; the first one also runs the tracker.",
        needs="xgboost",
        image="python:3.12-slim",
        groups=(("worker", 3),),
        kubeflow=Dialect(
            kind="XGBoostJob",
            specs="xgbReplicaSpecs",
            container="xgboost",
            groups=(("Master", 1), ("Worker", 2)),
        ),
    ),
    "mpi": Starter(
        what="A launcher starts four processes on two workers with mpirun, without SSH.",
        needs="mpi4py numpy",
        image="mpioperator/base",
        command='[mpirun, -np, "4", python3, train.py]',
        kinds=(KUBEFLOW,),
        kubeflow=Dialect(
            kind="MPIJob",
            specs="mpiReplicaSpecs",
            container="mpi",
            groups=(("Launcher", 1), ("Worker", 2)),
            more=("slotsPerWorker: 2",),
        ),
    ),
}


def programs(framework: str) -> dict[str, str]:
    """The training program of a starter, and what it imports from beside it."""
    texts = {"train.py": files(__package__).joinpath(f"{framework}.txt").read_text()}
    if ELASTIC in STARTERS[framework].kinds:
        texts["training.py"] = files("pliant").joinpath("training.py").read_text()
    return texts


def job_text(framework: str, name: str, kind: str) -> str:
    """The job of a starter, as YAML."""
    starter = STARTERS[framework]
    needs = f" Needs a python3 with {starter.needs} on the PATH." if starter.needs else ""
    head = [
        f"# {starter.what}",
        f"# `pliant run job.yaml` runs it on this machine.{needs}",
        f"# On Kubernetes the image must hold all that, and {' and '.join(programs(framework))} where it starts.",
    ]
    dialect = starter.kubeflow if kind == KUBEFLOW else None
    if kind == ELASTIC:
        body = _elasticjob(starter, name)
    else:
        body = _kubeflow(starter, dialect, name) if dialect else _aitrainingjob(framework, starter, name)
    return "\n".join([*head, *body]) + "\n"


def _elasticjob(starter: Starter, name: str) -> list[str]:
    lines = ["apiVersion: elastic.iml.github.io/v1alpha1", "kind: ElasticJob", "metadata:", f"  name: {name}"]
    lines += ["spec:", "  distributionStrategy: AllreduceStrategy", "  replicaSpecs:"]
    for group, size in starter.groups:
        lines += [f"    {group}:", f"      replicas: {size}", "      minReplicas: 1", "      maxReplicas: 4"]
        lines += _template(starter, "main", starter.command)
    return lines


def _aitrainingjob(framework: str, starter: Starter, name: str) -> list[str]:
    lines = [
        "apiVersion: elasticdeeplearning.ai/v1",
        "kind: AITrainingJob",
        "metadata:",
        f"  name: {name}",
        "spec:",
    ]
    lines += [] if framework == "generic" else [f"  frameworkType: {framework}"]
    lines += [f"  {line}" for line in starter.spec] + ["  replicaSpecs:"]
    for group, size in starter.groups:
        own = [f"replicas: {size}", *starter.group]
        lines += [f"    {group}:", *(f"      {line}" for line in own)]
        lines += _template(starter, "aitj-main", starter.command)
    return lines


def _kubeflow(starter: Starter, dialect: Dialect, name: str) -> list[str]:
    lines = ["apiVersion: kubeflow.org/v1", f"kind: {dialect.kind}", "metadata:", f"  name: {name}", "spec:"]
    lines += ["  runPolicy:", "    cleanPodPolicy: Running"]
    lines += [f"  {line}" for line in dialect.more] + [f"  {dialect.specs}:"]
    for group, size in dialect.groups:
        lines += [f"    {group}:", f"      replicas: {size}"]
        # Workers of MPI that are told nothing wait for their launcher.
        is_idle = dialect.kind == "MPIJob" and group == "Worker"
        lines += _template(starter, dialect.container, "" if is_idle else starter.command)
    return lines


def _template(starter: Starter, container: str, command: str) -> list[str]:
    lines = ["template:", "  spec:", *(f"    {line}" for line in starter.pod), "    containers:"]
    lines += [f"      - name: {container}", f"        image: {starter.image}"]
    lines += [f"        command: {command}"] if command else []
    if starter.requests:
        lines += ["        resources:", "          requests:"]
        lines += [f"            {name}: {amount}" for name, amount in starter.requests.items()]
    if starter.env:
        lines += ["        env:"]
        for variable, value in starter.env.items():
            lines += [f"          - name: {variable}", f"            value: {value}"]
    return [f"      {line}" for line in lines]

"""Starter jobs for `pliant new`, one per framework."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.resources import files

AITRAININGJOB, KUBEFLOW, ELASTICJOB = "aitrainingjob", "kubeflow", "elasticjob"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeflowStarter:
    """How a Kubeflow kind writes the job of a framework."""

    kind: str
    replica_specs_field: str
    container_name: str
    groups: tuple[tuple[str, int], ...]
    extra_spec_lines: tuple[str, ...] = ()  # lines of the spec besides the groups


@dataclass(frozen=True, slots=True, kw_only=True)
class StarterJob:
    """A job that runs unchanged if its packages are installed."""

    description: str
    pip_packages: str = ""
    image: str
    groups: tuple[tuple[str, int], ...] = (("worker", 2),)
    spec_lines: tuple[str, ...] = ()  # lines of the AITrainingJob spec besides the groups
    # lines of each group
    group_lines: tuple[str, ...] = ("restartPolicy: OnFailure", "restartScope: All", "restartLimit: 3")
    pod_lines: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    requests: dict[str, str] = field(default_factory=dict)
    command: str = "[python3, train.py]"
    kubeflow: KubeflowStarter | None = None
    kinds: tuple[str, ...] = (AITRAININGJOB, KUBEFLOW)  # supported kinds, the default first


STARTERS_BY_FRAMEWORK: dict[str, StarterJob] = {
    "generic": StarterJob(
        description="Two replicas of any program.",
        image="python:3.12-slim",
        kinds=(AITRAININGJOB,),
        group_lines=("restartPolicy: OnFailure", "restartScope: Pod", "restartLimit: 3"),
    ),
    "elastic": StarterJob(
        description="Two to four elastic workers, which get shards of the data from the master of the job.",
        image="python:3.12-slim",
        kinds=(ELASTICJOB,),
        # The master requests a whole core for workers without requests.
        requests={"cpu": "100m", "memory": "64Mi"},
    ),
    "pytorch": StarterJob(
        description="Three replicas train a network with DistributedDataParallel over gloo; the master is rank 0.",
        pip_packages="torch",
        image="pytorch/pytorch",
        groups=(("master", 1), ("worker", 2)),
        kubeflow=KubeflowStarter(
            kind="PyTorchJob",
            replica_specs_field="pytorchReplicaSpecs",
            container_name="pytorch",
            groups=(("Master", 1), ("Worker", 2)),
        ),
    ),
    "tensorflow": StarterJob(
        description="ParameterServerStrategy: one chief, two workers, and a parameter server with the weights.",
        pip_packages="tensorflow",
        image="tensorflow/tensorflow",
        groups=(("chief", 1), ("ps", 1), ("worker", 2)),
        # Servers and workers never exit: the job ends with its chief.
        spec_lines=("completePolicy: Any",),
        group_lines=(),
        pod_lines=("terminationGracePeriodSeconds: 1",),
        kubeflow=KubeflowStarter(
            kind="TFJob",
            replica_specs_field="tfReplicaSpecs",
            container_name="tensorflow",
            groups=(("Chief", 1), ("PS", 1), ("Worker", 2)),
        ),
    ),
    "mxnet": StarterJob(
        description="A scheduler, a server and two workers share weights through a dist_sync key-value store.",
        pip_packages="mxnet",
        image="mxnet/python",
        groups=(("scheduler", 1), ("server", 1), ("worker", 2)),
        group_lines=(),
        kubeflow=KubeflowStarter(
            kind="MXJob",
            replica_specs_field="mxReplicaSpecs",
            container_name="mxnet",
            groups=(("Scheduler", 1), ("Server", 1), ("Worker", 2)),
            extra_spec_lines=("jobMode: MXTrain",),
        ),
    ),
    "paddle": StarterJob(
        description="Two trainers share one model with DataParallel over gloo.",
        pip_packages="paddlepaddle",
        image="paddlepaddle/paddle",
        env={"PADDLE_DISTRI_BACKEND": "gloo"},
        kubeflow=KubeflowStarter(
            kind="PaddleJob", replica_specs_field="paddleReplicaSpecs", container_name="paddle", groups=(("Worker", 2),)
        ),
    ),
    "jax": StarterJob(
        description="Two processes train a linear model, each on half of the data; the first is the coordinator.",
        pip_packages="jax",
        image="python:3.12-slim",
        kubeflow=KubeflowStarter(
            kind="JAXJob", replica_specs_field="jaxReplicaSpecs", container_name="jax", groups=(("Worker", 2),)
        ),
    ),
    "xgboost": StarterJob(
        description="Three replicas train boosted trees; the first runs the tracker.",
        pip_packages="xgboost",
        image="python:3.12-slim",
        groups=(("worker", 3),),
        kubeflow=KubeflowStarter(
            kind="XGBoostJob",
            replica_specs_field="xgbReplicaSpecs",
            container_name="xgboost",
            groups=(("Master", 1), ("Worker", 2)),
        ),
    ),
    "mpi": StarterJob(
        description="A launcher starts four processes on two workers with mpirun, without SSH.",
        pip_packages="mpi4py numpy",
        image="mpioperator/base",
        command='[mpirun, -np, "4", python3, train.py]',
        kinds=(KUBEFLOW,),
        kubeflow=KubeflowStarter(
            kind="MPIJob",
            replica_specs_field="mpiReplicaSpecs",
            container_name="mpi",
            groups=(("Launcher", 1), ("Worker", 2)),
            extra_spec_lines=("slotsPerWorker: 2",),
        ),
    ),
}


def starter_program_files(framework: str) -> dict[str, str]:
    texts = {"train.py": files(__package__).joinpath(f"{framework}.txt").read_text()}
    if ELASTICJOB in STARTERS_BY_FRAMEWORK[framework].kinds:
        texts["elastic.py"] = files("pliant").joinpath("elastic.py").read_text()
    return texts


def render_starter_job(framework: str, name: str, kind: str) -> str:
    starter = STARTERS_BY_FRAMEWORK[framework]
    needs = f" It requires a python3 with {starter.pip_packages} on the PATH." if starter.pip_packages else ""
    programs = " and ".join(starter_program_files(framework))
    head = [
        f"# {starter.description}",
        f"# Run it on this machine with `pliant run job.yaml`.{needs}",
        f"# On Kubernetes, the image must contain them and {programs} in its workdir.",
    ]
    kubeflow_starter = starter.kubeflow if kind == KUBEFLOW else None
    if kind == ELASTICJOB:
        body = _render_elasticjob(starter, name)
    else:
        body = (
            _render_kubeflow(starter, kubeflow_starter, name)
            if kubeflow_starter
            else _render_aitrainingjob(framework, starter, name)
        )
    return "\n".join([*head, *body]) + "\n"


def _render_elasticjob(starter: StarterJob, name: str) -> list[str]:
    lines = ["apiVersion: elastic.iml.github.io/v1alpha1", "kind: ElasticJob", "metadata:", f"  name: {name}"]
    lines += ["  annotations:", "    pliant/clean: running"]
    lines += ["spec:", "  distributionStrategy: AllreduceStrategy", "  replicaSpecs:"]
    for group, size in starter.groups:
        lines += [f"    {group}:", f"      replicas: {size}", "      minReplicas: 1", "      maxReplicas: 4"]
        lines += _render_template(starter, "main", starter.command)
    return lines


def _render_aitrainingjob(framework: str, starter: StarterJob, name: str) -> list[str]:
    lines = ["apiVersion: elasticdeeplearning.ai/v1", "kind: AITrainingJob", "metadata:", f"  name: {name}", "spec:"]
    lines += [] if framework == "generic" else [f"  frameworkType: {framework}"]
    # Finished pods stay with their logs; running ones are deleted.
    lines += ["  cleanPodPolicy: Running", *(f"  {line}" for line in starter.spec_lines), "  replicaSpecs:"]
    for group, size in starter.groups:
        own = [f"replicas: {size}", *starter.group_lines]
        lines += [f"    {group}:", *(f"      {line}" for line in own)]
        lines += _render_template(starter, "aitj-main", starter.command)
    return lines


def _render_kubeflow(starter: StarterJob, kubeflow: KubeflowStarter, name: str) -> list[str]:
    lines = ["apiVersion: kubeflow.org/v1", f"kind: {kubeflow.kind}", "metadata:", f"  name: {name}", "spec:"]
    lines += ["  runPolicy:", "    cleanPodPolicy: Running"]
    lines += [f"  {line}" for line in kubeflow.extra_spec_lines] + [f"  {kubeflow.replica_specs_field}:"]
    for group, size in kubeflow.groups:
        lines += [f"    {group}:", f"      replicas: {size}"]
        # MPI workers without a command wait for their launcher.
        is_idle = kubeflow.kind == "MPIJob" and group == "Worker"
        lines += _render_template(starter, kubeflow.container_name, "" if is_idle else starter.command)
    return lines


def _render_template(starter: StarterJob, container: str, command: str) -> list[str]:
    lines = ["template:", "  spec:", *(f"    {line}" for line in starter.pod_lines), "    containers:"]
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

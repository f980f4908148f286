"""A launcher starts commands on its workers, on the embedded cluster, without SSH and without any MPI."""

from __future__ import annotations

from tests.cli.asking import said
from tests.cli.ordinary_user import OrdinaryUser

LAUNCH = (
    'for host in $(cut -d" " -f1 /etc/mpi/hostfile); do'
    " $OMPI_MCA_plm_rsh_agent $host 'echo \"$(hostname) is $K_MPI_JOB_ROLE\"' || exit; done;"
    " echo there: $(/etc/mpi/discover_hosts.sh); /etc/mpi/rsh pi-worker-1 exit 7; echo ended with $?"
)
JOB = f"""\
apiVersion: kubeflow.org/v1
kind: MPIJob
metadata: {{name: pi}}
spec:
  slotsPerWorker: 2
  mpiReplicaSpecs:
    Launcher:
      template:
        spec:
          containers:
            - name: mpi
              image: mpi
              command:
                - sh
                - -c
                - |
                  {LAUNCH}
    Worker:
      replicas: 2
      template:
        spec:
          containers:
            - {{name: mpi, image: mpi}}
"""


def test_a_launcher_runs_commands_on_workers_that_were_told_nothing(cluster: OrdinaryUser) -> None:
    ended = said(cluster, "submit", cluster.write("pi.yaml", JOB), "--follow")
    assert [line.partition(" │ ")[2] for line in ended.out.splitlines() if "│" in line] == [
        "pi-worker-0 is worker",
        "pi-worker-1 is worker",
        "there: pi-worker-0.pi:2 pi-worker-1.pi:2",
        "ended with 7",
    ]

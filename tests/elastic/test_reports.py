"""Reports of training programs: a line, and a request to the operator that nothing waits for."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Event, Thread

from pliant import elastic
from tests.elastic.operator_server import OperatorServer
from tests.elastic.programs import read_line, run_program, start_program


def test_without_an_operator_a_report_is_a_line() -> None:
    assert run_program("elastic.report(step=3, loss=0.25, note=None)") == "pliant: step=3 loss=0.25\n"


def test_the_last_report_arrives_even_if_the_program_ends_at_once(operator: OperatorServer) -> None:
    script = "for step in range(100): elastic.report(step=step, loss=float('nan'))"
    run_program(script, **operator.environment)
    assert operator.reports[-1] == {"step": 99, "loss": "nan"}
    assert len(operator.reports) <= 3


def test_values_of_an_interval_are_merged(operator: OperatorServer, job: elastic.Job) -> None:
    job.report(step=1)
    operator.wait_for("reports")
    job.report(step=2, loss=1.5)
    job.report(step=3)
    job.report(accuracy=0.5)
    operator.wait_for("reports", 2)
    merged = {name: value for report in operator.reports[1:] for name, value in report.items()}
    job.close()
    assert {**merged, **operator.reports[-1]} == {"step": 3, "loss": 1.5, "accuracy": 0.5}


def test_training_does_not_wait_for_a_response() -> None:
    may_respond = Event()

    class Silent(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            may_respond.wait()
            self.send_response(202)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Do not log requests."""

    script = """
elastic.REPORT_TIMEOUT = 600  # a report that is waited for would never end
for step in range(9):
    elastic.report(step=step)
print("trained", flush=True)
"""
    with HTTPServer(("127.0.0.1", 0), Silent) as server:
        thread = Thread(target=server.serve_forever, args=[0.02])
        thread.start()
        process = start_program(script, PLIANT_REPORT_URL=f"http://127.0.0.1:{server.server_port}/report/x")
        while (line := read_line(process)) != "trained":
            assert line.startswith("pliant: step=")
        may_respond.set()
        process.communicate(timeout=60)
        server.shutdown()
        thread.join()
    assert process.returncode == 0


def test_a_forked_process_reports_as_well(operator: OperatorServer) -> None:
    script = """
import os
elastic.report(step=1)
if os.fork() == 0:
    elastic.report(step=2)
else:
    os.wait()
"""
    run_program(script, **operator.environment)
    assert {report["step"] for report in operator.reports} == {1, 2}


def test_an_operator_that_is_away_is_no_reason_to_fail() -> None:
    for url in ("http://127.0.0.1:9/x", "no address"):
        assert run_program("elastic.report(step=1)", PLIANT_REPORT_URL=url) == "pliant: step=1\n"

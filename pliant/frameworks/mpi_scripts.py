"""Scripts mounted in the replicas of an MPI job, by which mpirun starts processes without SSH.

They need only Python 3. The `rsh` of the launcher asks the agent of a worker to run a command and authenticates with
an HMAC of the job's key. The agent kills the command when the launcher disconnects.
"""

from __future__ import annotations

RSH_SCRIPT = '''#!/usr/bin/env python3
"""Run a command on a worker: rsh [OPTIONS] HOST COMMAND… (options of ssh are ignored)."""
import hashlib, hmac, json, os, shutil, socket, struct, sys, time

CONNECT_TIMEOUT, REFUSED_TIMEOUT = 600.0, 15.0  # seconds to wait for a worker, and for its agent to listen
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "agent.json")) as file:
    AGENT = json.load(file)


def parse_arguments(words):
    while words and words[0].startswith("-"):
        words = words[2 if words[0] in ("-l", "-o", "-p", "-i", "-F") else 1 :]
    if len(words) < 2:
        sys.exit("rsh: a host and a command are required")
    return words[0].rpartition("@")[2], " ".join(words[1:])


def connect(host, command):
    start, refused = time.monotonic(), 0.0
    # Programs may name a worker by its pod: its DNS name ends with the service of the job.
    names = [host, f"{host}.{AGENT['service']}"] if AGENT["service"] and "." not in host else [host]
    while time.monotonic() - start < CONNECT_TIMEOUT:
        try:
            return socket.create_connection((names[-1], AGENT["port"]), timeout=5)
        except ConnectionRefusedError:
            refused = refused or time.monotonic()
            if time.monotonic() - refused > REFUSED_TIMEOUT:
                break
        except OSError:
            refused = 0.0  # the host has no DNS name or route yet
            names.reverse()
        time.sleep(0.2)
    if shutil.which("kubectl"):
        os.execvp("kubectl", ["kubectl", "exec", host.split(".")[0], "--", "sh", "-c", command])
    sys.exit(f"rsh: {host}:{AGENT['port']} does not accept connections: workers must run /etc/mpi/worker")


def main():
    host, command = parse_arguments(sys.argv[1:])
    with connect(host, command) as peer:
        peer.settimeout(None)
        stream = peer.makefile("rwb")
        nonce = stream.readline().strip()
        proof = hmac.new(AGENT["key"].encode(), nonce + command.encode(), hashlib.sha256).hexdigest()
        stream.write(json.dumps({"command": command, "proof": proof}).encode() + b"\\n")
        stream.flush()
        outputs = {b"1": sys.stdout.buffer, b"2": sys.stderr.buffer}
        while len(head := stream.read(5)) == 5:
            kind, number = head[:1], struct.unpack("!I", head[1:])[0]
            if kind == b"x":
                return number
            outputs[kind].write(stream.read(number))
            outputs[kind].flush()
    print(f"rsh: {host} closed the connection", file=sys.stderr)
    return 255


sys.exit(main())
'''

WORKER_ENTRYPOINT_SCRIPT = """#!/bin/sh
# The command of workers: serve the launcher. Without Python, sleep until the launcher uses kubectl exec.
command -v python3 >/dev/null && exec python3 "$(dirname "$0")/agent.py"
trap 'exit 0' TERM
while :; do sleep 3600 & wait $!; done
"""

WORKER_AGENT_SCRIPT = '''#!/usr/bin/env python3
"""Run the commands of the launcher until the pod ends; kill them when the launcher disconnects."""
import hashlib, hmac, json, os, secrets, selectors, signal, socketserver, struct, subprocess

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "agent.json")) as file:
    AGENT = json.load(file)


class Session(socketserver.StreamRequestHandler):
    timeout = 30  # for clients that connect and send nothing

    def handle(self):
        nonce = secrets.token_hex(16).encode()
        self.wfile.write(nonce + b"\\n")
        request = json.loads(self.rfile.readline(1 << 20) or b"{}")
        command, proof = str(request.get("command", "")), str(request.get("proof", ""))
        expected = hmac.new(AGENT["key"].encode(), nonce + command.encode(), hashlib.sha256).hexdigest()
        if not command or not hmac.compare_digest(expected.encode(), proof.encode()):
            return
        self.connection.settimeout(None)
        pipe = subprocess.PIPE
        with subprocess.Popen(
            ["sh", "-c", command], stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True
        ) as process:
            try:
                self.relay(process)
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)  # remaining child processes
                except ProcessLookupError:
                    pass

    def relay(self, process):
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ, b"1")
            ready.register(process.stderr, selectors.EVENT_READ, b"2")
            ready.register(self.connection, selectors.EVENT_READ, b"")
            while len(ready.get_map()) > 1:
                for key, _ in ready.select():
                    if not key.data:
                        return  # the launcher sends nothing more: it has disconnected
                    chunk = os.read(key.fd, 65536)
                    if chunk:
                        self.wfile.write(key.data + struct.pack("!I", len(chunk)) + chunk)
                    else:
                        ready.unregister(key.fileobj)
        code = process.wait()
        self.wfile.write(b"x" + struct.pack("!I", code if code >= 0 else 128 - code))


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass  # malformed requests and disconnected launchers


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
with Server(("", AGENT["port"]), Session) as server:
    server.serve_forever()
'''

DISCOVER_HOSTS_SCRIPT = """#!/bin/sh
# Print the current workers, one `host:slots` per line; wait up to a minute for the first one.
# The operator writes the members to a file. Without it, the workers are those whose names can be resolved.
[ -s /etc/pliant/membership/hosts ] && exec cat /etc/pliant/membership/hosts
tries=0
while [ "$tries" -lt 60 ]; do
  found=
  for host in {hosts}; do
    if getent hosts "$host" >/dev/null 2>&1; then
      echo "$host:{slots}"
      found=yes
    fi
  done
  [ "$found" ] && exit 0
  tries=$((tries + 1))
  sleep 1
done
exit 1
"""

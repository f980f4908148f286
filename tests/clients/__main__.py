"""`python -m tests.clients`: install the client libraries, build the programs in Go and kubectl in several versions."""

from __future__ import annotations

import os
import sys

from tests.clients.environments import KUBECTL_VERSIONS, PYTHON_CLIENTS
from tests.clients.go_programs import build_programs
from tests.controlplane.build import build, cache_folder
from tests.controlplane.progress import BuildError
from tests.real_frameworks.environments import installed

os.umask(0o022)  # the tests run as another user
for line in installed((PYTHON_CLIENTS,)):
    print(f"scripts/test: NOT INSTALLED, its tests are skipped: {line}", file=sys.stderr)
for version in KUBECTL_VERSIONS:
    try:
        build(["kubectl"], cache_folder(os.environ), version)
    except BuildError as error:
        print(f"scripts/test: NOT BUILT, its tests are skipped: kubectl {version}: {error}", file=sys.stderr)
try:
    build_programs()
except (BuildError, OSError) as problem:
    print(f"scripts/test: NOT BUILT, its tests are skipped: {problem}", file=sys.stderr)

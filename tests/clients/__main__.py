"""`python -m tests.clients`: install the client libraries."""

from __future__ import annotations

import os
import sys

from tests.clients.environments import PYTHON_CLIENTS
from tests.real_frameworks.environments import installed

os.umask(0o022)  # the tests run as another user
for line in installed((PYTHON_CLIENTS,)):
    print(f"scripts/test: NOT INSTALLED, its tests are skipped: {line}", file=sys.stderr)

"""`python -m tests.dlrover_masters`: installs the releases of DLRover whose masters are tried."""

from __future__ import annotations

import os
import sys

from tests.dlrover_masters.versions import RELEASES
from tests.real_frameworks.environments import installed

os.umask(0o022)  # the tests run as somebody else
for line in installed(RELEASES.values()):
    print(f"scripts/test: NOT INSTALLED, its tests are skipped: {line}", file=sys.stderr)

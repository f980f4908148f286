"""`python -m tests.real_frameworks [NAME…]`: installs what the examples of real frameworks need."""

from __future__ import annotations

import os
import sys

from tests.real_frameworks.environments import install_all

os.umask(0o022)  # the tests run as somebody else
for line in install_all(sys.argv[1:]):
    print(f"scripts/test: NOT INSTALLED, its tests are skipped: {line}", file=sys.stderr)

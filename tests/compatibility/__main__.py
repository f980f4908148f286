"""`python -m tests.compatibility`: downloads the samples of other operators."""

from __future__ import annotations

import os
import sys

from tests.compatibility.archives import download_all

os.umask(0o022)  # the tests run as somebody else
for line in download_all():
    print(f"scripts/test: NOT DOWNLOADED, its tests are skipped: {line}", file=sys.stderr)

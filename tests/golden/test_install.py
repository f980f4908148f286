from __future__ import annotations

import pytest

from pliant.cli.main import main
from tests.golden.files import ROOT, check_golden, yaml_text
from tests.quickyaml import documents

HEADER = """\
# Made by scripts/golden; with deploy/crds it is what `pliant install` prints:
#   kubectl apply -f deploy/crds -f deploy/operator.yaml
"""


def test_the_operator_checked_in_is_the_one_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["install"])
    objects = documents(capsys.readouterr().out)
    text = "".join(f"---\n{yaml_text(each)}" for each in objects if each["kind"] != "CustomResourceDefinition")
    check_golden(ROOT / "deploy" / "operator.yaml", HEADER + text)

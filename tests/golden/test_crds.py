from __future__ import annotations

from typing import Any

import pytest

from pliant.frontends import FRONTENDS
from pliant.frontends.base import definitions
from tests.golden.files import ROOT, check_golden, yaml_text

HEADER = "# Made by scripts/golden from the typed models; `pliant crds` prints the same.\n"


CRDS = [crd for frontend in FRONTENDS.values() for crd in definitions(frontend)]


@pytest.mark.parametrize("crd", CRDS, ids=[crd["spec"]["names"]["kind"] for crd in CRDS])
def test_the_definition_checked_in_is_the_one_the_code_makes(crd: dict[str, Any]) -> None:
    check_golden(ROOT / "deploy" / "crds" / f"{crd['metadata']['name']}.yaml", HEADER + yaml_text(crd))


def test_no_definition_is_left_behind() -> None:
    made = {f"{crd['metadata']['name']}.yaml" for crd in CRDS}
    assert {path.name for path in (ROOT / "deploy" / "crds").iterdir()} == made

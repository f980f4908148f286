from __future__ import annotations

import pytest

from pliant.frontends import FRONTENDS
from pliant.frontends.base import Frontend
from tests.golden.files import ROOT, check_golden, yaml_text

HEADER = "# Made by scripts/golden from the typed models; `pliant crds` prints the same.\n"


@pytest.mark.parametrize("frontend", FRONTENDS.values(), ids=[kind for _, kind in FRONTENDS])
def test_the_definition_checked_in_is_the_one_the_code_makes(frontend: Frontend) -> None:
    crd = frontend.crd()
    check_golden(ROOT / "deploy" / "crds" / f"{crd['metadata']['name']}.yaml", HEADER + yaml_text(crd))


def test_no_definition_is_left_behind() -> None:
    made = {f"{frontend.crd()['metadata']['name']}.yaml" for frontend in FRONTENDS.values()}
    assert {path.name for path in (ROOT / "deploy" / "crds").iterdir()} == made

"""Prints objects in the form asked for."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from typing import Any

FORMS = ("table", "wide", "json", "yaml", "name")


def add_output_option(parser: ArgumentParser, forms: Sequence[str] = FORMS) -> None:
    """Let people choose the form."""
    parser.add_argument(
        "--output", "-o", choices=forms, default=forms[0], metavar="FORM", help=f"{', '.join(forms)} ({forms[0]})"
    )


def data_text(form: str, value: Any) -> str:
    """A value as JSON or as YAML."""
    if form == "json":
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True))


def print_objects(form: str, objects: Sequence[Mapping[str, Any]], *, is_one: bool) -> None:
    """Raw objects as data: one by itself, several as a List, as kubectl does."""
    value = objects[0] if is_one else {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    sys.stdout.write(data_text(form, value))

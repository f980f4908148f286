"""Prints objects as JSON or YAML."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from typing import Any

OUTPUT_FORMATS = ("table", "wide", "json", "yaml", "name")


def add_output_option(parser: ArgumentParser, formats: Sequence[str] = OUTPUT_FORMATS) -> None:
    text = f"Output format: {', '.join(formats)} ({formats[0]})"
    parser.add_argument("--output", "-o", choices=formats, default=formats[0], metavar="FORMAT", help=text)


def format_json_or_yaml(output_format: str, value: Any) -> str:
    if output_format == "json":
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True))


def print_objects(output_format: str, objects: Sequence[Mapping[str, Any]], *, is_single: bool) -> None:
    """Print a single object as it is, several as a List, as kubectl does."""
    value = objects[0] if is_single else {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    sys.stdout.write(format_json_or_yaml(output_format, value))

"""Prints objects as JSON or YAML."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Mapping, Sequence
from typing import Any

OUTPUT_FORMATS = ("table", "wide", "json", "yaml", "name")


def add_output_option(parser: ArgumentParser, formats: Sequence[str] = OUTPUT_FORMATS) -> None:
    text = f"Output format: {', '.join(formats)} ({formats[0]})"
    parser.add_argument("--output", "-o", choices=formats, default=formats[0], metavar="FORMAT", help=text)


def add_dry_run_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("dry run")
    dry_run: dict[str, Any] = {"nargs": "?", "const": "client", "type": _parse_dry_run}
    dry_run_help = "Print the objects and run nothing; with `server`, let the API server check them"
    group.add_argument("--dry-run", **dry_run, metavar="client|server", help=dry_run_help)
    group.add_argument("--output", "-o", choices=("yaml", "json"), default="yaml", help="Format of --dry-run (yaml)")


def _parse_dry_run(text: str) -> str:
    if text not in ("client", "server"):
        raise ArgumentTypeError(f"`{text}` is not client or server; write --dry-run after FILE, or --dry-run=client")
    return text


def print_manifests(output_format: str, objects: Sequence[dict[str, Any]]) -> None:
    """Print objects as they would stand in a file."""
    if output_format == "json":
        print_objects("json", objects, is_single=len(objects) == 1)
        return
    from pliant.cli.output.manifest_yaml import dump_manifest

    sys.stdout.write("---\n".join(map(dump_manifest, objects)))


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

"""Translates the errors of an API server to problems of the input: field, message and fix."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from pliant.cli.input.manifests import Manifest
from pliant.cli.input.problems import InputProblem, InvalidInput
from pliant.errors import ApiError, BadRequest, Invalid


def is_input_error(error: ApiError) -> bool:
    """Return whether an error is about the object of a request; API servers have no reason for some of these."""
    return isinstance(error, BadRequest | Invalid) or (error.status == 500 and not error.reason)


def to_invalid_input(manifest: Manifest, error: ApiError, openapi: Mapping[str, Any]) -> InvalidInput:
    """Convert an error of the API server to problems of fields."""
    causes = error.details.get("causes") or ()
    unknown_fields = re.findall(r'unknown field "([^"]+)"', str(error))
    problems = [unknown_field_problem(manifest, field, openapi) for field in unknown_fields]
    problems += [value_problem(manifest, cause.get("field", ""), cause.get("message", "")) for cause in causes]
    return InvalidInput(problems or [manifest.field_problem(str(error), "")])


def unknown_field_problem(manifest: Manifest, field: str, openapi: Mapping[str, Any]) -> InputProblem:
    """Return the problem of an unknown field, with the field that was probably meant."""
    parent, _, word = field.rpartition(".")
    known = sorted(_declared_fields(openapi, parent))
    close = get_close_matches(word, known, n=1)
    by_case = [name for name in known if name.lower() == word.lower()]
    fix = f"known fields: {', '.join(known)}" if 0 < len(known) <= 12 else "remove it, or check its indentation"
    problem = manifest.field_problem(f"unknown field `{word}`", field, fix)
    if not (by_case or close):
        return problem
    intended = (by_case or close)[0]
    return replace(problem, fix=f"did you mean `{intended}`?", intended_field=f"{parent}.{intended}".lstrip("."))


def _declared_fields(openapi: Mapping[str, Any], path: str) -> Iterable[str]:
    """Return the fields that a schema declares at a path."""
    node: Any = openapi
    for step in re.findall(r"[^.\[\]]+", path):
        properties = node.get("properties", {})
        node = properties.get(step) or node.get("additionalProperties") or node.get("items")
        if not isinstance(node, Mapping):
            return ()
        if step.isdigit() and "items" in node:
            node = node["items"]
    return tuple(node.get("properties", ()))


def value_problem(manifest: Manifest, field: str, message: str) -> InputProblem:
    """Return the problem of a field from the message of an API server about its value."""
    word = field.rpartition(".")[2]
    if message.startswith("Required value"):
        return manifest.field_problem(f"`{word}` is missing", field, f"add `{word}:`")
    text = re.sub(r" \(e\.g\. .*regex used for validation.*\)$", "", message.replace(f"{field} in body ", ""))
    if kind := re.search(r'must be of type (\w+): "(\w+)"$', text):
        text = f"`{word}` must be of type {kind[1]}, not {kind[2]}"
        return manifest.field_problem(text, field, _TYPE_FIXES.get((kind[1], kind[2]), ""))
    text = re.sub(r"^(?:Invalid|Unsupported) value: (.*?): ", r"\1 is not allowed: ", text)
    text = text.replace('supported values: "", ', "supported values: ")  # empty: the field is omitted
    return manifest.field_problem(text, field, _suggest_value(message))


_TYPE_FIXES = {
    ("string", "integer"): "put it in quotes",
    ("string", "number"): "put it in quotes",
    ("string", "boolean"): "put it in quotes",
    ("integer", "string"): "write a whole number, without quotes",
    ("array", "string"): "write a list: [one, two]",
    ("array", "object"): "write a list: start each item with `-`",
    ("object", "array"): "write fields, without `-`",
}


def _suggest_value(message: str) -> str:
    """Return the allowed value closest to the written one, or the bound that it exceeds, as a suggestion."""
    if "RFC 1123" in message and (name := re.search(r'Invalid value: "([^"]*)"', message)):
        allowed = re.sub(r"[^a-z0-9.-]+", "-", name[1].lower()).strip("-.")
        return f"did you mean `{allowed}`?" if allowed and allowed != name[1] else ""
    if bound := re.search(r"should be (greater|less) than or equal to (-?[\d.]+)$", message):
        return f"write {bound[2]} or {'more' if bound[1] == 'greater' else 'less'}"
    if "supported values: " not in message:
        return ""
    written, allowed = message.split("supported values: ")
    words = re.findall(r'"([^"]*)"', allowed)
    close = get_close_matches("".join(re.findall(r'"([^"]*)"', written)[:1]), words, n=1, cutoff=0.4)
    return f"did you mean `{close[0]}`?" if close else ""

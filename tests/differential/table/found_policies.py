"""Sequences in which admission policies once decided otherwise."""

from __future__ import annotations

from tests.differential.steps import WAIT, A, Step

_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_POLICIES = f"{_ADMISSION}/validatingadmissionpolicies"
_BINDINGS = f"{_ADMISSION}/validatingadmissionpolicybindings"
_MAPS = f"{A}/configmaps"
_NAME = {"name": "{run}-own"}
_RULE = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["configmaps"], "operations": ["DELETE"]}
_SPACES = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["{run}-a"]}
_BINDING = {
    "policyName": "{run}-own",
    "validationActions": ["Deny"],
    "matchResources": {"namespaceSelector": {"matchExpressions": [_SPACES]}},
}


def _with_policy(rule: dict[str, object], expression: str, *steps: Step) -> list[Step]:
    spec = {"matchConstraints": {"resourceRules": [{**_RULE, **rule}]}, "validations": [{"expression": expression}]}
    return [
        *(Step("POST", _MAPS, {"metadata": {"name": name}}) for name in ("one", "two")),
        Step("POST", _POLICIES, {"metadata": _NAME, "spec": spec}),
        Step("POST", _BINDINGS, {"metadata": _NAME, "spec": _BINDING}),
        Step(WAIT, ""),
        *steps,
        Step("DELETE", f"{_BINDINGS}/{{run}}-own"),
        Step("DELETE", f"{_POLICIES}/{{run}}-own"),
    ]


SEQUENCES: dict[str, list[Step]] = {
    "the names of a rule match no deletion of a collection": _with_policy(
        {"resourceNames": ["one"]},
        "false",
        Step("DELETE", f"{_MAPS}/one"),
        Step("DELETE", f"{_MAPS}/two"),
        Step("DELETE", _MAPS),
    ),
    "the deletion of a collection has no name": _with_policy(
        {}, "has(request.name) && request.name == 'one'", Step("DELETE", f"{_MAPS}/one"), Step("DELETE", _MAPS)
    ),
    "the name of a deletion that is empty": _with_policy({}, "request.name == ''", Step("DELETE", _MAPS)),
}

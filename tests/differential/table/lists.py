"""Lists, their options, and watches."""

from __future__ import annotations

from tests.differential.steps import PARTIAL_LIST, TABLE, WATCH, A, Step
from tests.differential.table.verbs import config_map

_MAPS = f"{A}/configmaps"
_CREATED = [Step("POST", _MAPS, config_map(name, labels={"n": name, "all": "yes"})) for name in ("l1", "l2", "l3")]
_OPTIONS: tuple[dict[str, str], ...] = (
    {"labelSelector": "all=yes"},
    {"labelSelector": "n in (l1,l2),all"},
    {"labelSelector": "!all"},
    {"labelSelector": "a=="},
    {"fieldSelector": "metadata.name=l1"},
    {"fieldSelector": "metadata.name!=l1", "labelSelector": "all"},
    {"fieldSelector": "data.a=1"},
    {"fieldSelector": "nonsense"},
    {"limit": "2", "labelSelector": "all"},
    {"limit": "2", "labelSelector": "all", "continue": "{continue}"},
    {"limit": "1", "labelSelector": "n=l1"},
    {"limit": "x"},
    {"limit": "-1"},
    {"continue": "nonsense"},
    {"resourceVersion": "x"},
    {"resourceVersion": "0", "labelSelector": "all"},
    {"resourceVersionMatch": "Exact"},
    {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
    {"resourceVersionMatch": "Exact", "resourceVersion": "{now}", "labelSelector": "all"},
    {"resourceVersionMatch": "Sometimes", "resourceVersion": "1"},
    {"sendInitialEvents": "true"},
)
_REPLAYED: tuple[dict[str, str], ...] = (
    {"resourceVersion": "{now}"},
    {"resourceVersion": "0", "labelSelector": "all"},
    {"labelSelector": "all"},
    {"resourceVersion": "x"},
    {"resourceVersionMatch": "Exact", "resourceVersion": "{now}"},
    {"sendInitialEvents": "true"},
    {
        "labelSelector": "all",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    },
)
SEQUENCES: dict[str, list[Step]] = {
    "lists": [
        *_CREATED,
        *(Step("GET", _MAPS, query=options) for options in _OPTIONS),
        Step("GET", _MAPS, query={"labelSelector": "all"}, accept=TABLE),
        Step("GET", _MAPS, query={"labelSelector": "all"}, accept=PARTIAL_LIST),
        Step("GET", _MAPS, query={"labelSelector": "none"}, accept=PARTIAL_LIST),
        Step("GET", "/api/v1/namespaces/none/configmaps"),
    ],
    "watches of what exists": [
        *_CREATED,
        *(Step("GET", _MAPS, query={**options, "watch": "1", "timeoutSeconds": "1"}) for options in _REPLAYED),
    ],
    "watches of changes": [
        Step(WATCH, _MAPS, query={"resourceVersion": "{now}"}),
        Step(WATCH, _MAPS, query={"resourceVersion": "{now}", "labelSelector": "app=web"}),
        Step("POST", _MAPS, config_map("a", labels={"app": "web"})),
        Step("PUT", f"{_MAPS}/a", config_map("a", labels={"app": "db"})),
        Step("PUT", f"{_MAPS}/a", config_map("a", labels={"app": "web"})),
        Step("PUT", f"{_MAPS}/a", config_map("a", labels={"app": "web"})),
        Step("DELETE", f"{_MAPS}/a"),
    ],
}

"""Discovery, and paths that are not served."""

from __future__ import annotations

from tests.differential.steps import A, Step

SEQUENCES: dict[str, list[Step]] = {
    "discovery": [
        Step("GET", "/api"),
        Step("GET", "/apis/example.org"),
        Step("GET", "/apis/example.org/v1"),
        Step("GET", "/healthz"),
        Step("GET", "/nonsense"),
        Step("GET", "/apis/none.example.org/v1/things"),
        Step("GET", "/apis/example.org/v9/gadgets"),
        Step("GET", f"{A}/configmaps/m", accept="text/html"),
    ]
}

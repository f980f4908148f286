from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from pliant.errors import UserError
from pliant.kube import config
from pliant.kube.config import TokenFile, find_endpoint, transport_for
from tests.kube.certificates import make_pair


def write(file: Path, **document: Any) -> Path:
    file.write_text(yaml.safe_dump({key.replace("_", "-"): value for key, value in document.items()}))
    return file


def parts(name: str, **user: Any) -> dict[str, Any]:
    return {
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.example:6443/"}}],
        "users": [{"name": name, "user": user}],
    }


def token_of(file: Path | None, environment: dict[str, str], context: str | None = None) -> tuple[str, str]:
    endpoint = find_endpoint(file, context, environment)
    return endpoint.url, endpoint.token() if endpoint.token else ""


def test_the_current_context_is_used_unless_another_is_named(tmp_path: Path) -> None:
    one, two = parts("one", token="t1"), parts("two", token="t2")
    both = {section: one[section] + two[section] for section in one}
    file = write(tmp_path / "config", current_context="one", **both)
    assert token_of(file, {}) == ("https://one.example:6443", "t1")
    assert token_of(file, {}, "two") == ("https://two.example:6443", "t2")
    with pytest.raises(UserError, match="no context named 'three'"):
        find_endpoint(file, "three", {})


def test_of_several_files_the_first_wins_for_each_entry(tmp_path: Path) -> None:
    first = write(tmp_path / "1", current_context="x", **parts("x", token="first"))
    second = write(tmp_path / "2", current_context="y", **parts("x", token="second"))
    third = write(tmp_path / "3", **parts("y", token="third"))
    listed = {"KUBECONFIG": os.pathsep.join(map(str, [tmp_path / "absent", first, second, third]))}
    assert token_of(None, listed) == ("https://x.example:6443", "first")
    assert token_of(None, listed, "y") == ("https://y.example:6443", "third")


def test_the_home_directory_is_the_last_place(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config", current_context="x", **parts("x", token="home"))
    assert token_of(None, {"HOME": str(tmp_path)})[1] == "home"


def test_a_token_file_is_found_beside_its_kubeconfig_and_read_again_when_it_changes(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old\n")
    file = write(tmp_path / "config", current_context="x", **parts("x", tokenFile="token"))
    token = find_endpoint(file, None, {}).token
    assert token is not None
    assert token() == "old"
    (tmp_path / "new").write_text("newer\n")
    (tmp_path / "new").replace(tmp_path / "token")
    assert token() == "newer"
    (tmp_path / "token").unlink()
    assert token() == "newer"


def test_a_token_file_that_never_was_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere"):
        TokenFile(tmp_path / "nowhere")()


def test_inside_a_pod_the_service_account_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "SERVICE_ACCOUNT", tmp_path)
    (tmp_path / "token").write_text("pod-token")
    (tmp_path / "ca.crt").write_bytes(make_pair("kubernetes").certificate)
    inside = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    assert token_of(None, inside) == ("https://[fd00::1]:6443", "pod-token")


def test_when_nothing_is_found_every_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{tmp_path}/.kube/config.*serviceaccount.*pliant up"):
        find_endpoint(None, None, {"HOME": str(tmp_path)})
    with pytest.raises(UserError, match="/absent"):
        find_endpoint(None, None, {"HOME": str(tmp_path), "KUBECONFIG": "/absent"})
    with pytest.raises(UserError, match="/absent: no such file"):
        transport_for(Path("/absent"), None)


@pytest.mark.parametrize("way", ["exec", "auth-provider", "username"])
def test_a_login_we_cannot_do_is_said_so(tmp_path: Path, way: str) -> None:
    file = write(tmp_path / "config", current_context="x", **parts("x", **{way: {"command": "aws"}}))
    with pytest.raises(UserError, match=f"{way}.*token or a client certificate"):
        find_endpoint(file, None, {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1]", "holds no configuration"),
        ("a: [", "not YAML"),
        ("{}", "no current-context"),
        ("current-context: x", "no context named 'x'"),
    ],
)
def test_a_broken_kubeconfig_is_explained(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(UserError, match=said):
        find_endpoint(file, None, {})


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ({"server": "ftp://x"}, "must be an http"),
        ({"server": 5}, "must be text"),
        ({"server": "https://x", "certificate-authority-data": "!"}, "not base64"),
        ({"server": "https://x", "certificate-authority": "absent.crt"}, "absent.crt: No such file"),
        ({"server": "https://x", "certificate-authority-data": "YWJj"}, "bad certificate"),
    ],
)
def test_a_broken_cluster_entry_is_explained(tmp_path: Path, cluster: dict[str, Any], said: str) -> None:
    document = {**parts("x"), "clusters": [{"name": "x", "cluster": cluster}]}
    file = write(tmp_path / "config", current_context="x", **document)
    with pytest.raises(UserError, match=said):
        find_endpoint(file, None, {})

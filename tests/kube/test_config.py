from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pliant.errors import UserError
from pliant.kube import client_config
from pliant.kube.auth.credentials import ANONYMOUS_CREDENTIAL, ClientCertificate, Credential, ReloadingFile
from pliant.kube.client_config import create_transport
from pliant.kube.transport.http import ApiServerEndpoint
from tests.kube.certificates import BEGINNING, Pair, make_pair


def find_endpoint(kubeconfig: Path | None, context: str | None, environment: Mapping[str, str]) -> ApiServerEndpoint:
    return client_config.find_api_server(kubeconfig, context, environment, lambda: BEGINNING)


async def shown(endpoint: ApiServerEndpoint) -> Credential:
    return await endpoint.credentials.credential() if endpoint.credentials else ANONYMOUS_CREDENTIAL


def write(file: Path, **document: Any) -> Path:
    file.write_text(yaml.safe_dump({key.replace("_", "-"): value for key, value in document.items()}))
    return file


def parts(name: str, **user: Any) -> dict[str, Any]:
    return {
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.example:6443/"}}],
        "users": [{"name": name, "user": user}],
    }


async def token_of(file: Path | None, environment: dict[str, str], context: str | None = None) -> tuple[str, str]:
    endpoint = find_endpoint(file, context, environment)
    return endpoint.url, (await shown(endpoint)).authorization.removeprefix("Bearer ")


async def test_the_current_context_is_used_unless_another_is_named(tmp_path: Path) -> None:
    one, two = parts("one", token="t1"), parts("two", token="t2")
    both = {section: one[section] + two[section] for section in one}
    file = write(tmp_path / "config", current_context="one", **both)
    assert await token_of(file, {}) == ("https://one.example:6443", "t1")
    assert await token_of(file, {}, "two") == ("https://two.example:6443", "t2")
    with pytest.raises(UserError, match="no context named 'three'"):
        find_endpoint(file, "three", {})


async def test_of_several_files_the_first_wins_for_each_entry(tmp_path: Path) -> None:
    first = write(tmp_path / "1", current_context="x", **parts("x", token="first"))
    second = write(tmp_path / "2", current_context="y", **parts("x", token="second"))
    third = write(tmp_path / "3", **parts("y", token="third"))
    listed = {"KUBECONFIG": os.pathsep.join(map(str, [tmp_path / "absent", first, second, third]))}
    assert await token_of(None, listed) == ("https://x.example:6443", "first")
    assert await token_of(None, listed, "y") == ("https://y.example:6443", "third")


async def test_the_home_directory_is_the_last_place(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config", current_context="x", **parts("x", token="home"))
    assert (await token_of(None, {"HOME": str(tmp_path)}))[1] == "home"


async def test_a_token_file_is_found_beside_its_kubeconfig_and_read_again_when_it_changes(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old\n")
    file = write(tmp_path / "config", current_context="x", **parts("x", tokenFile="token"))
    login = find_endpoint(file, None, {}).credentials
    assert login is not None
    old = await login.credential()
    assert old.authorization == "Bearer old"
    assert not await login.renew_after_rejection(old)
    (tmp_path / "new").write_text("newer\n")
    (tmp_path / "new").replace(tmp_path / "token")
    assert await login.renew_after_rejection(old)
    (tmp_path / "token").unlink()
    assert (await login.credential()).authorization == "Bearer newer"


def test_a_token_file_that_never_was_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere"):
        ReloadingFile(tmp_path / "nowhere", "token file").read()


async def test_inside_a_pod_the_service_account_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_config, "SERVICE_ACCOUNT_DIR", tmp_path)
    (tmp_path / "token").write_text("pod-token")
    (tmp_path / "namespace").write_text("team-a\n")
    (tmp_path / "ca.crt").write_bytes(make_pair("kubernetes").certificate)
    inside = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    assert await token_of(None, inside) == ("https://[fd00::1]:6443", "pod-token")
    assert find_endpoint(None, None, inside).default_namespace == "team-a"
    assert find_endpoint(None, None, inside).default_namespace == "team-a"


def test_when_nothing_is_found_every_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{tmp_path}/.kube/config.*serviceaccount.*pliant up"):
        find_endpoint(None, None, {"HOME": str(tmp_path)})
    with pytest.raises(UserError, match="/absent"):
        find_endpoint(None, None, {"HOME": str(tmp_path), "KUBECONFIG": "/absent"})
    with pytest.raises(UserError, match="/absent: no such file"):
        create_transport(Path("/absent"), None, lambda: BEGINNING)


def test_a_login_we_cannot_do_is_said_so(tmp_path: Path) -> None:
    file = write(tmp_path / "config", current_context="x", **parts("x", **{"auth-provider": {"name": "gcp"}}))
    with pytest.raises(UserError, match=r"auth-provider.*client certificate"):
        find_endpoint(file, None, {})


async def test_a_name_and_a_password_are_shown_as_a_header(tmp_path: Path) -> None:
    file = write(tmp_path / "config", current_context="x", **parts("x", username="me", password="pass"))
    header = (await shown(find_endpoint(file, None, {}))).authorization
    assert header == "Basic " + base64.b64encode(b"me:pass").decode()


def test_a_context_brings_its_namespace_proxy_and_whom_to_speak_for(tmp_path: Path) -> None:
    document = parts("x", **{"as": "somebody", "as-groups": ["a", "b"], "as-user-extra": {"scope": ["s"]}})
    document["contexts"][0]["context"]["namespace"] = "team-a"
    document["clusters"][0]["cluster"]["proxy-url"] = "http://proxy:3128"
    endpoint = find_endpoint(write(tmp_path / "config", current_context="x", **document), None, {})
    assert (endpoint.context_name, endpoint.default_namespace, endpoint.proxy_url) == (
        "x",
        "team-a",
        "http://proxy:3128",
    )
    assert endpoint.headers == (
        ("Impersonate-User", "somebody"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-scope", "s"),
    )
    assert endpoint.source == str(tmp_path / "config")


@pytest.fixture(scope="module")
def pair() -> Pair:
    return make_pair("somebody")


async def test_client_certificates_come_from_data_or_files_and_files_are_read_again(tmp_path: Path, pair: Pair) -> None:
    data = {
        "client-certificate-data": base64.b64encode(pair.certificate).decode(),
        "client-key-data": base64.b64encode(pair.key).decode(),
    }
    inside = write(tmp_path / "1", current_context="x", **parts("x", **data))
    assert (await shown(find_endpoint(inside, None, {}))).certificate == ClientCertificate(*pair)
    for name, content in zip(("tls.crt", "tls.key"), pair, strict=True):
        (tmp_path / name).write_bytes(content)
    files = {"client-certificate": "tls.crt", "client-key": "tls.key"}
    endpoint = find_endpoint(write(tmp_path / "2", current_context="x", **parts("x", **files)), None, {})
    assert (await shown(endpoint)).certificate == ClientCertificate(*pair)
    other = make_pair("other")
    for name, content in zip(("tls.crt", "tls.key"), other, strict=True):
        (tmp_path / name).write_bytes(content)
    assert (await shown(endpoint)).certificate == ClientCertificate(*other)


def test_an_empty_file_counts_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    full = write(tmp_path / "full", current_context="x", **parts("x"))
    listed = {"KUBECONFIG": f"{tmp_path / 'empty'}{os.pathsep}{full}"}
    assert find_endpoint(None, None, listed).context_name == "x"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1]", "must contain an object"),
        ("a: [", r"not YAML: line \d"),
        ("clusters: 5\ncontexts: 5\ncurrent-context: x", "contexts must be a list"),
        ("{}", "current-context is not set"),
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
        ({"server": 5}, "must be a string"),
        ({"server": "https://x", "certificate-authority-data": "!"}, "not base64"),
        ({"server": "https://x", "certificate-authority": "absent.crt"}, "absent.crt: No such file"),
        ({"server": "https://x", "certificate-authority-data": "YWJj"}, "invalid certificate"),
        ({"server": "https://x", "insecure-skip-tls-verify": "yes"}, "must be true or false"),
        ({"server": "https://x", "proxy-url": "socks5://y"}, "proxy-url must be an http"),
    ],
)
def test_a_broken_cluster_entry_is_explained(tmp_path: Path, cluster: dict[str, Any], said: str) -> None:
    document = {**parts("x"), "clusters": [{"name": "x", "cluster": cluster}]}
    file = write(tmp_path / "config", current_context="x", **document)
    with pytest.raises(UserError, match=said):
        find_endpoint(file, None, {})


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"client-certificate-data": "YWJj"}, "must be set together"),
        ({"client-certificate-data": "YWJj", "client-key-data": "YWJj"}, "invalid certificate"),
        ({"as-groups": "one"}, "must be a list of strings"),
        ({"exec": "aws"}, "exec must be an object"),
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}, "command is required"),
        ({"exec": {"command": "a", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}, "apiVersion must be"),
        ({"exec": {"command": "a", "apiVersion": "client.authentication.k8s.io/v1"}}, "interactiveMode must be"),
        (
            {"exec": {"command": "a", "apiVersion": "client.authentication.k8s.io/v1beta1", "env": [1]}},
            "env must be a list",
        ),
    ],
)
def test_a_broken_user_entry_is_explained(tmp_path: Path, user: dict[str, Any], said: str) -> None:
    file = write(tmp_path / "config", current_context="x", **parts("x", **user))
    with pytest.raises(UserError, match=said):
        find_endpoint(file, None, {})

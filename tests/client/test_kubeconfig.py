"""Where credentials come from, and what is said when they do not."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.client.kubeconfig import BadKubeconfig, Cluster, default_path, in_cluster, load


def written(directory: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None, **config: Any) -> Path:
    path = directory / "config"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://a:1/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
            {"name": "bare", "context": {"cluster": "c"}},
            {"name": "broken", "context": {"cluster": "ghost", "user": "u"}},
        ],
        "current-context": "x",
        **config,
    }
    path.write_text(yaml.safe_dump(content))
    return path


def data(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_certificates_are_read_inline_and_from_files_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("KEY")
    user = {"client-certificate-data": data("CERT"), "client-key": "key.pem"}
    found = load(written(tmp_path, user, {"certificate-authority-data": data("CA")}))
    assert found == Cluster("https://a:1", "CA", "CERT", "KEY", namespace="team")


def test_tokens_are_read_inline_and_from_files(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    assert load(written(tmp_path, {"token": "inline"})).token == "inline"
    assert load(written(tmp_path, {"token": "inline", "tokenFile": "token"})).token == "from-file"


def test_another_context_may_be_chosen(tmp_path: Path) -> None:
    found = load(written(tmp_path, {"token": "t"}), "bare")
    assert (found.token, found.namespace) == ("", "default")


def plugin(script: str, **more: Any) -> dict[str, Any]:
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": "sh", "args": ["-c", script], **more}}


def test_a_plug_in_gives_its_credential(tmp_path: Path) -> None:
    answer = '{"kind":"ExecCredential","status":{"token":"\'$WHO\'"}}'
    script = f"echo \"$KUBERNETES_EXEC_INFO\" | grep -q ExecCredential && echo '{answer}'"
    user = plugin(script, env=[{"name": "WHO", "value": "ann"}])
    assert load(written(tmp_path, user)).token == "ann"


@pytest.mark.parametrize(
    ("user", "context", "words"),
    [
        pytest.param({}, "ghost", "contexts: no entry named 'ghost'; there are: x, bare, broken", id="no such context"),
        pytest.param({}, "broken", "clusters: no entry named 'ghost'; there are: c", id="no such cluster"),
        pytest.param({"client-certificate": "none.pem"}, "", "client-certificate: .*none.pem", id="no such file"),
        pytest.param({"client-key-data": "%%"}, "", "client-key-data: must be base64 of PEM", id="no base64"),
        pytest.param({"tokenFile": "none"}, "", "tokenFile: ", id="no token file"),
        pytest.param(plugin("echo oops >&2; exit 3"), "", "'sh' ended with 3: oops", id="a plug-in that fails"),
        pytest.param(plugin("echo hello"), "", "did not print an ExecCredential", id="a plug-in that talks"),
        pytest.param(plugin("echo '{}'"), "", "printed neither", id="a plug-in without a credential"),
        pytest.param(
            plugin("", command="/no/such/plugin", installHint="get it"),
            "",
            "/no/such/plugin.*get it",
            id="a plug-in that is not there",
        ),
        pytest.param(plugin("", apiVersion="v0"), "", "exec.apiVersion: 'v0' must be one of", id="another protocol"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, user: dict[str, Any], context: str, words: str) -> None:
    path = written(tmp_path, user)
    with pytest.raises(BadKubeconfig, match=words) as failure:
        load(path, context)
    assert str(path) in str(failure.value)


def test_a_file_that_is_none_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        BadKubeconfig, match="no such kubeconfig: name one with --kubeconfig or KUBECONFIG; `headrace up`"
    ):
        load(tmp_path / "none")
    (tmp_path / "list").write_text("[]")
    with pytest.raises(BadKubeconfig, match="must be a YAML object"):
        load(tmp_path / "list")


def test_inside_a_pod_the_service_account_is_used(tmp_path: Path) -> None:
    for name in ("ca.crt", "token", "namespace"):
        (tmp_path / name).write_text(f"{name}\n")
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    found = in_cluster(environment, tmp_path)
    assert found == Cluster("https://[fd00::1]:443", "ca.crt\n", token="token", namespace="namespace")
    with pytest.raises(BadKubeconfig, match="not inside a Pod"):
        in_cluster({}, tmp_path)


def test_the_first_file_of_kubeconfig_is_taken() -> None:
    assert default_path({"KUBECONFIG": ":/a:/b"}) == Path("/a")
    assert default_path({}) == Path.home() / ".kube" / "config"

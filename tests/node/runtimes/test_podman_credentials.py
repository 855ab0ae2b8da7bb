"""Which credentials an image is pulled with: the kubelet's own cases, and what it does with secrets that are wrong."""

import base64
import json

import pytest

from headrace.node.runtimes.podman_credentials import BadSecret, Credentials, credentials_for
from headrace.node.runtimes.podman_images import repository
from headrace.node.runtimes.protocol import ContainerSpec, Limits, PullSecret

AUTH = base64.b64encode(b"foo:bar").decode()


def config_json(**auths: object) -> PullSecret:
    content = json.dumps({"auths": auths}).encode()
    return PullSecret("s", "kubernetes.io/dockerconfigjson", {".dockerconfigjson": content})


def names(image: str, *secrets: PullSecret) -> list[str]:
    return [each.username for each in credentials_for(image, secrets)]


# pkg/credentialprovider/keyring_test.go of Kubernetes 1.37: TestURLsMatch, TestDockerKeyringForGlob, TestKeyringMiss,
# TestKeyringMissWithDockerHubCredentials, TestKeyringHitWith…
MATCHES = [
    ("*.kubernetes.io", "prefix.kubernetes.io"),
    ("prefix.*.io", "prefix.kubernetes.io"),
    ("prefix.kubernetes.*", "prefix.kubernetes.io"),
    ("*-good.kubernetes.io", "prefix-good.kubernetes.io"),
    ("*.kubernetes.io/blah", "prefix.kubernetes.io/blah"),
    ("prefix.*.io/foo", "prefix.kubernetes.io/foo/bar"),
    ("*.kubernetes.io:1111/blah", "prefix.kubernetes.io:1111/blah"),
    ("prefix.*.io:1111/foo", "prefix.kubernetes.io:1111/foo/bar"),
    ("*kubernetes.io", "kubernetes.io"),
    ("*.*.*.kubernetes.io", "a.b.c.kubernetes.io"),
    ("https://hello.kubernetes.io", "hello.kubernetes.io"),
    ("https://*.docker.io", "prefix.docker.io"),
    ("https://prefix.*.io", "prefix.docker.io"),
    ("https://prefix.docker.*", "prefix.docker.io"),
    ("https://*.docker.io/path", "prefix.docker.io/path"),
    ("https://prefix.*.io/path", "prefix.docker.io/path/subpath"),
    ("https://prefix.docker.*/path", "prefix.docker.io/path"),
    ("https://*.docker.io:8888", "prefix.docker.io:8888"),
    ("https://prefix.*.io:8888", "prefix.docker.io:8888"),
    ("https://prefix.docker.*:8888", "prefix.docker.io:8888"),
    ("https://*.docker.io/path:1111", "prefix.docker.io/path:1111"),
    ("https://*.docker.io/v1/", "prefix.docker.io/path:1111"),
    ("https://*.docker.io/v2/", "prefix.docker.io/path:1111"),
    ("https://prefix.docker.*/path:1111", "prefix.docker.io/path:1111"),
    ("prefix.docker.io:1111", "prefix.docker.io:1111/path"),
    ("*.docker.io:1111", "prefix.docker.io:1111/path"),
    ("https://index.docker.io/v1/", "docker.io/library"),
    ("index.docker.io", "docker.io/team"),
    ("docker.io", "docker.io/library"),
    ("127.0.0.1:5000", "127.0.0.1:5000"),
    ("[::1]:5000/team", "[::1]:5000/team"),
    ("http://user@registry.local/", "registry.local"),
]
MISSES = [
    ("*.kubernetes.io", "kubernetes.io"),
    ("*.*.kubernetes.io", "prefix.kubernetes.io"),
    ("*.*.kubernetes.io", "kubernetes.io"),
    ("*kubernetes.io", "a.kubernetes.io"),
    ("kubernetes.io", "kubernetes.com"),
    ("k*.io", "quay.io"),
    ("*.kubernetes.io:1234/blah", "prefix.kubernetes.io:1111/blah"),
    ("prefix.*.io/foo", "prefix.kubernetes.io:1111/foo/bar"),
    ("https://hello.kubernetes.io", "world.mesos.org"),
    ("https://*.docker.com", "prefix.docker.io"),
    ("https://suffix.*.io", "prefix.docker.io"),
    ("https://prefix.docker.c*", "prefix.docker.io"),
    ("https://prefix.*.io/path:1111", "prefix.docker.io/path/subpath:1111"),
    ("suffix.*.io", "prefix.docker.io"),
    ("https://index.docker.io/v1/", "world.mesos.org"),
    ("https://[broken", "broken"),
]


@pytest.mark.parametrize(("location", "place"), MATCHES)
def test_credentials_are_found_by_host_pattern_port_and_beginning_of_the_path(location: str, place: str) -> None:
    secret = config_json(**{location: {"auth": AUTH, "email": "foo@bar.baz"}})
    assert credentials_for(f"{place}/foo/bar", [secret]) == [Credentials("foo", "bar")]


@pytest.mark.parametrize(("location", "place"), MISSES)
def test_credentials_of_other_places_are_not_shown_to_a_registry(location: str, place: str) -> None:
    assert credentials_for(f"{place}/foo/bar", [config_json(**{location: {"auth": AUTH}})]) == []


def test_the_more_special_place_comes_first_and_all_that_match_are_tried() -> None:
    wide = config_json(**{"gcr.io": {"username": "wide"}, "*.io": {"username": "pattern"}})
    narrow = config_json(**{"gcr.io/team": {"username": "narrow"}, "gcr.io": {"username": "second"}})
    assert names("gcr.io/team/app", wide, narrow) == ["narrow", "wide", "second", "pattern"]


def test_the_older_form_is_read_and_other_types_are_passed_over() -> None:
    old = PullSecret("s", "kubernetes.io/dockercfg", {".dockercfg": json.dumps({"gcr.io": {"auth": AUTH}}).encode()})
    opaque = PullSecret("s", "Opaque", {".dockerconfigjson": b"no JSON"})
    empty = PullSecret("s", "kubernetes.io/dockerconfigjson", {".dockerconfigjson": b""})
    assert names("gcr.io/app", old, opaque, empty) == ["foo"]


@pytest.mark.parametrize("auth", [AUTH, AUTH.rstrip("="), base64.b64encode(b"foo:bar:baz").decode()])
def test_auth_wins_over_name_and_password_padded_or_not(auth: str) -> None:
    secret = config_json(**{"gcr.io": {"auth": auth, "username": "other", "password": "other"}})
    [found] = credentials_for("gcr.io/app", [secret])
    assert (found.username, found.password) in (("foo", "bar"), ("foo", "bar:baz"))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"{TOPSECRET", id="no JSON"),
        pytest.param(b'["TOPSECRET"]', id="a list"),
        pytest.param(b'{"auths": "TOPSECRET"}', id="auths is a text"),
        pytest.param(b'{"auths": {"gcr.io": "TOPSECRET"}}', id="an entry is a text"),
        pytest.param(b'{"auths": {"gcr.io": {"auth": "TOPSECRET!"}}}', id="auth is not base64"),
        pytest.param(b'{"auths": {"gcr.io": {"auth": "VE9QU0VDUkVU"}}}', id="auth without a colon"),
        pytest.param(b'{"auths": {"gcr.io": {"auth": 7, "password": "TOPSECRET"}}}', id="auth is a number"),
    ],
)
def test_a_secret_that_cannot_be_read_is_named_and_its_content_is_not_told(content: bytes) -> None:
    secret = PullSecret("mine", "kubernetes.io/dockerconfigjson", {".dockerconfigjson": content})
    with pytest.raises(BadSecret, match='imagePullSecret "mine"') as bad:
        credentials_for("gcr.io/app", [secret])
    assert "TOPSECRET" not in f"{bad.value}{bad.value.__cause__}"
    assert "VE9QU0VDUkVU" not in str(bad.value)


def test_no_secret_is_in_what_objects_print_of_themselves() -> None:
    secret = config_json(**{"gcr.io": {"username": "TOPSECRET", "password": "TOPSECRET"}})
    [found] = credentials_for("gcr.io/app", [secret])
    spec = ContainerSpec("a", "u", "p", "c", (), {}, "", "", Limits(), pull_secrets=[secret])
    assert "TOPSECRET" not in f"{secret}{spec}{found}"
    assert json.loads(base64.urlsafe_b64decode(found.header())) == {"username": "TOPSECRET", "password": "TOPSECRET"}


@pytest.mark.parametrize(
    ("image", "full"),
    [
        ("busybox", "docker.io/library/busybox"),
        ("team/app:1.2", "docker.io/team/app"),
        ("gcr.io/app@sha256:abc", "gcr.io/app"),
        ("127.0.0.1:5000/team/app:1@sha256:abc", "127.0.0.1:5000/team/app"),
        ("localhost/app", "localhost/app"),
    ],
)
def test_an_image_is_looked_up_by_its_full_name_without_tag_and_digest(image: str, full: str) -> None:
    assert repository(image) == full

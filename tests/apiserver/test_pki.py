"""The authority and its leaves: made once, private, renewed in time, never replaced silently."""

import ssl
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.apiserver import pki
from headrace.apiserver.addresses import addresses
from headrace.client.kubeconfig import load

NOW = 1_800_000_000.0
DAY = 86400.0


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_second_start_changes_nothing(tmp_path: Path) -> None:
    pki.ensure(tmp_path, NOW)
    before = contents(tmp_path)
    pki.ensure(tmp_path, NOW + 30 * DAY)
    assert contents(tmp_path) == before


def test_leaves_are_renewed_before_they_end_and_the_authority_is_not(tmp_path: Path) -> None:
    pki.ensure(tmp_path, NOW)
    before = contents(tmp_path)
    pki.ensure(tmp_path, NOW + 300 * DAY)
    changed = {name for name, content in contents(tmp_path).items() if content != before[name]}
    leaves = ("server", "admin", "controller", "viewer")
    assert changed == {f"{name}.{kind}" for name in leaves for kind in ("crt", "key")}


def test_a_new_address_gets_into_the_server_certificate(tmp_path: Path) -> None:
    pki.ensure(tmp_path, NOW)
    made = pki.ensure(tmp_path, NOW, ("192.0.2.7", "0.0.0.0"))
    decoded = ssl._ssl._test_decode_cert(str(made.certificate("server")))  # type: ignore[attr-defined]
    names = set(decoded["subjectAltName"])
    assert {("IP Address", "192.0.2.7"), ("DNS", "localhost"), ("IP Address", "127.0.0.1")} <= names
    assert ("IP Address", "0.0.0.0") not in names


def test_a_server_on_all_addresses_is_certified_for_each_of_them(tmp_path: Path, monkeypatch) -> None:
    """An agent on another machine was refused with `IP address mismatch`, whatever it was told to join."""
    monkeypatch.setattr(pki, "addresses", lambda: ("192.0.2.7", "2001:db8::7"))
    for wildcard in ("0.0.0.0", "::"):
        made = pki.ensure(tmp_path / wildcard.replace(":", "v6"), NOW, (wildcard,))
        decoded = ssl._ssl._test_decode_cert(str(made.certificate("server")))  # type: ignore[attr-defined]
        names = {name for _, name in decoded["subjectAltName"]}
        assert {"192.0.2.7", "2001:DB8:0:0:0:0:0:7", "127.0.0.1", "localhost"} <= names
        assert wildcard not in names
        assert pki.is_complete(made.directory, NOW, (wildcard,))
    monkeypatch.setattr(pki, "addresses", lambda: ("192.0.2.8",))
    assert not pki.is_complete(made.directory, NOW, (wildcard,))


def test_the_machines_addresses_are_found_without_link_local_ones(tmp_path: Path) -> None:
    table = tmp_path / "if_inet6"
    table.write_text(
        "20010db8000000000000000000000007 02 40 00 80     eth0\nfe800000000000000000000000000001 02 40 20 80     eth0\n"
    )
    found = addresses(table)
    assert "2001:db8::7" in found
    assert "fe80::1" not in found
    assert "127.0.0.1" in found
    assert "127.0.0.1" in addresses(tmp_path / "a kernel without IPv6")


def test_keys_and_kubeconfigs_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    made = pki.ensure(tmp_path / "pki", NOW)
    pki.write_kubeconfig(made, tmp_path / "kubeconfig", "https://127.0.0.1:7443", "admin")
    private = [tmp_path / "kubeconfig", *(tmp_path / "pki").glob("*.key")]
    assert len(private) == 6
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}
    assert stat.S_IMODE((tmp_path / "pki").stat().st_mode) == 0o700
    assert made.certificate("admin").read_text().endswith(load(tmp_path / "kubeconfig").certificate_pem)


def test_a_half_made_leaf_is_made_again(tmp_path: Path) -> None:
    made = pki.ensure(tmp_path, NOW)
    made.certificate("server").unlink()
    pki.ensure(tmp_path, NOW).server_context()


def test_a_lost_key_or_an_expired_authority_is_said_and_not_replaced(tmp_path: Path) -> None:
    made = pki.ensure(tmp_path, NOW)
    with pytest.raises(RuntimeError, match=r"expired on .*: move"):
        pki.ensure(tmp_path, NOW + 4000 * DAY)
    made.key("ca").unlink()
    made.certificate("admin").unlink()
    with pytest.raises(RuntimeError, match=r"ca\.key is missing: restore it"):
        pki.ensure(tmp_path, NOW)


def test_a_start_with_fresh_certificates_loads_no_cryptography(tmp_path: Path) -> None:
    pki.ensure(tmp_path, NOW)
    script = (
        "import sys, pathlib; from headrace.apiserver import pki; "
        f"pki.ensure(pathlib.Path({str(tmp_path)!r}), {NOW}).server_context(); assert 'cryptography' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_certificate_that_somebody_put_there_is_made_anew(tmp_path: Path) -> None:
    made = pki.ensure(tmp_path, NOW)
    foreign = made.certificate("viewer")
    made.certificate("admin").write_text("".join(foreign.read_text().splitlines(keepends=True)[2:]))
    before = made.certificate("admin").read_text()
    pki.ensure(tmp_path, NOW)
    assert made.certificate("admin").read_text() != before


def test_two_first_starts_at_once_make_one_authority(tmp_path: Path) -> None:
    """As when a server is killed in its first second: the process that makes its certificates is still at work."""
    command = (sys.executable, "-m", "headrace.apiserver.pki", str(tmp_path / "pki"))
    both = [subprocess.Popen(command) for _ in range(2)]
    assert [each.wait(60) for each in both] == [0, 0]
    made = pki.Pki(tmp_path / "pki")
    made.server_context()
    assert pki.is_complete(made.directory, time.time())

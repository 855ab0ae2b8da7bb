"""What an agent reads of its certificate is what `cryptography` reads of it, and damage is a ValueError."""

import ssl
from datetime import UTC, datetime

import pytest
from cryptography import x509 as reference
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from headrace.node.x509 import read

KEY = ec.generate_private_key(ec.SECP256R1())
NODES = (reference.NameOID.ORGANIZATION_NAME, "system:nodes")
BEGINS, ENDS = datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC), datetime(2027, 11, 30, tzinfo=UTC)


def certificate(*subject, begins=BEGINS, ends=ENDS):
    name = reference.Name([reference.NameAttribute(*each) for each in subject])
    return (
        reference.CertificateBuilder()
        .subject_name(name)
        .issuer_name(reference.Name([reference.NameAttribute(reference.NameOID.COMMON_NAME, "who signs")]))
        .public_key(KEY.public_key())
        .serial_number(2**150 + 1)
        .not_valid_before(begins)
        .not_valid_after(ends)
        .sign(KEY, hashes.SHA256())
    )


def named(name):
    return (reference.NameOID.COMMON_NAME, name)


@pytest.mark.parametrize(
    "built",
    [
        pytest.param(certificate(NODES, named("system:node:a")), id="an agent's"),
        pytest.param(certificate(named("system:node:" + "n" * 52)), id="the longest name"),
        pytest.param(certificate(named("Gerät")), id="a name beyond ASCII"),
        pytest.param(
            certificate(*[(reference.NameOID.ORGANIZATION_NAME, "o" * 60)] * 9, named("n")), id="long subject"
        ),
        pytest.param(certificate(named("first"), named("second")), id="two names"),
        pytest.param(certificate(NODES), id="no name"),
        pytest.param(certificate(), id="an empty subject"),
        pytest.param(certificate(named("n"), begins=datetime(1950, 1, 1, tzinfo=UTC)), id="the earliest of two digits"),
        pytest.param(certificate(named("n"), ends=datetime(2049, 12, 31, tzinfo=UTC)), id="the latest of two digits"),
        pytest.param(certificate(named("n"), ends=datetime(2050, 1, 1, tzinfo=UTC)), id="the first of four digits"),
    ],
)
def test_it_is_read_as_by_a_library_of_x509(built):
    found = read("# what somebody wrote above it\n" + built.public_bytes(Encoding.PEM).decode())
    names = built.subject.get_attributes_for_oid(reference.NameOID.COMMON_NAME)
    assert found.common_name == (names[0].value if names else "")
    assert (found.begins, found.ends) == (built.not_valid_before_utc, built.not_valid_after_utc)


DER = certificate(NODES, named("system:node:a")).public_bytes(Encoding.DER)


@pytest.mark.parametrize("text", ["", "no certificate", ssl.PEM_HEADER, f"{ssl.PEM_HEADER}\nAAAA\n{ssl.PEM_FOOTER}"])
def test_what_is_no_certificate_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"."):
        read(text)


@given(size=st.integers(0, len(DER) - 1))
def test_a_certificate_that_is_cut_short_is_a_value_error(size):
    with pytest.raises(ValueError, match=r"."):
        read(ssl.DER_cert_to_PEM_cert(DER[:size]))


@given(at=st.integers(0, len(DER) - 1), byte=st.integers(0, 255))
def test_a_damaged_byte_is_a_value_error_or_read_as_it_is(at, byte):
    damaged = DER[:at] + bytes([byte]) + DER[at + 1 :]
    try:
        read(ssl.DER_cert_to_PEM_cert(damaged))
    except ValueError:
        return

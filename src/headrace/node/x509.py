"""What an agent asks of its own certificate, read from its bytes (RFC 5280, DER): whose it is and when it holds.

It judges nothing, that is OpenSSL's part; and it is here because a library that knows all of X.509 would stay in an
agent's memory, with 10 MB, for two dates.
"""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

_VERSION = 0xA0  # [0], the one field before the serial number, and the one that may be missing
_UTC_TIME = 0x17  # two digits of the year; what is not this is a GeneralizedTime, with four
_LONG = 0x80
_COMMON_NAME = bytes.fromhex("550403")  # 2.5.4.3


@dataclass(frozen=True, slots=True)
class Certificate:
    """`common_name` is the subject's, empty if it has none."""

    common_name: str
    begins: datetime
    ends: datetime


def read(pem: str) -> Certificate:
    """The first certificate of the text. Raises ValueError where there is none, or one that is damaged."""
    text = pem[pem.index(ssl.PEM_HEADER) : pem.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)]
    ((_, certificate),) = _elements(ssl.PEM_cert_to_DER_cert(text))
    (_, signed), *_ = _elements(certificate)
    _serial, _algorithm, _issuer, validity, subject, *_ = (
        content for tag, content in _elements(signed) if tag != _VERSION
    )
    begins, ends = (_time(tag, content) for tag, content in _elements(validity))
    return Certificate(next(_common_names(subject), ""), begins, ends)


def _common_names(subject: bytes) -> Iterator[str]:
    for _, several in _elements(subject):
        for _, attribute in _elements(several):
            (_, kind), (_, value) = _elements(attribute)
            if kind == _COMMON_NAME:
                yield value.decode()


def _time(tag: int, content: bytes) -> datetime:
    text = content.decode("ascii")
    if tag == _UTC_TIME:
        text = ("19" if text >= "50" else "20") + text
    return datetime.fromisoformat(f"{text[:8]}T{text[8:]}")


def _elements(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each element in a row. Raises ValueError where one is cut short."""
    while der:
        if len(der) < 2:
            raise ValueError("DER: an element without a length")
        tag, size, start = der[0], der[1], 2
        if size & _LONG:
            start += size - _LONG
            size = int.from_bytes(der[2:start])
        if len(der) < start + size:
            raise ValueError(f"DER: {len(der)} bytes of {start + size}")
        yield tag, der[start : start + size]
        der = der[start + size :]

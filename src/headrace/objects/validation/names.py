"""Names that Kubernetes accepts, and its words for those that it does not (apimachinery's util/validation)."""

import re

from headrace.api.selectors import label_value_errors, qualified_name_errors

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_UNDERSCORED = re.compile(r"[a-z0-9_]([-_a-z0-9]*[a-z0-9_])?(\.[a-z0-9_]([-_a-z0-9]*[a-z0-9_])?)*", re.ASCII)
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_C_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_CONFIG_MAP_KEY = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII)
_ENV_NAME = re.compile(r"[ -<>-~]+", re.ASCII)
_PORT_NAME = re.compile(r"[-a-z0-9]+", re.ASCII)

FIELD_IMMUTABLE = "field is immutable"


def as_prefix(text: str) -> str:
    """A name that something will be appended to may end with a dash."""
    return text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text


def dns_label(text: str) -> list[str]:
    errors = ["must be no more than 63 characters"] if len(text) > 63 else []
    if _LABEL.fullmatch(text):
        return errors
    if _SUBDOMAIN.fullmatch(text):
        errors.append("must not contain dots")
    else:
        errors.append(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
            "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        )
    return errors


def dns_subdomain(text: str) -> list[str]:
    errors = ["must be no more than 253 characters"] if len(text) > 253 else []
    if not _SUBDOMAIN.fullmatch(text):
        errors.append(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
            r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        )
    return errors


def dns_subdomain_with_underscore(text: str) -> list[str]:
    """As search domains are: Kubernetes lets labels begin with `_` there."""
    errors = ["must be no more than 253 characters"] if len(text) > 253 else []
    if not _UNDERSCORED.fullmatch(text):
        errors.append(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and "
            "must start and end with an alphanumeric character (e.g. 'my_name', or 'MY_NAME',  or 'MyName', regex used "
            r"for validation is '[a-z0-9_]([-_a-z0-9]*[a-z0-9_])?(\.[a-z0-9_]([-_a-z0-9]*[a-z0-9_])?)*')"
        )
    return errors


def dns_1035_label(text: str) -> list[str]:
    errors = ["must be no more than 63 characters"] if len(text) > 63 else []
    if not _LABEL_1035.fullmatch(text):
        errors.append(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
            "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
            "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
        )
    return errors


def path_segment(text: str) -> list[str]:
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{part}'" for part in ("/", "%") if part in text]


def c_identifier(text: str) -> list[str]:
    if _C_IDENTIFIER.fullmatch(text):
        return []
    return [
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
        "characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is "
        "'[A-Za-z_][A-Za-z0-9_]*')"
    ]


def config_map_key(text: str) -> list[str]:
    errors = ["must be no more than 253 characters"] if len(text) > 253 else []
    if not _CONFIG_MAP_KEY.fullmatch(text):
        errors.append(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
            "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
        )
    if text == ".":
        errors.append("must not be '.'")
    elif text == "..":
        errors.append("must not be '..'")
    elif text.startswith(".."):
        errors.append("must not start with '..'")
    return errors


def env_name(text: str) -> list[str]:
    if _ENV_NAME.fullmatch(text):
        return []
    return [
        "a valid environment variable name must consist only of printable ASCII characters other than '=' (e.g. "
        "'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for validation is '^[ -<>-~]+$')"
    ]


def port_name(text: str) -> list[str]:
    errors = ["must be no more than 15 characters"] if len(text) > 15 else []
    if not _PORT_NAME.fullmatch(text):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        errors.append("must contain at least one letter (a-z)")
    if "--" in text:
        errors.append("must not contain consecutive hyphens")
    if text and (text[0] == "-" or text[-1] == "-"):
        errors.append("must not begin or end with a hyphen")
    return errors


def port_number(number: int) -> list[str]:
    return [] if 1 <= number <= 65535 else ["must be between 1 and 65535, inclusive"]


__all__ = [
    "FIELD_IMMUTABLE",
    "as_prefix",
    "c_identifier",
    "config_map_key",
    "dns_1035_label",
    "dns_label",
    "dns_subdomain",
    "dns_subdomain_with_underscore",
    "env_name",
    "label_value_errors",
    "path_segment",
    "port_name",
    "port_number",
    "qualified_name_errors",
]

"""aiohttp, imported without the system's authorities: `from headrace.client.aiohttp_import import aiohttp`.

At its import it makes two TLS contexts of its own and reads into them every certificate that the system trusts, which
takes longer than a whole command may. A connection of ours always brings its own context, so these are left empty.
"""

import os

_NAMES = ("SSL_CERT_FILE", "SSL_CERT_DIR")  # where OpenSSL looks for the system's authorities
_before = {name: os.environ.get(name) for name in _NAMES}
os.environ.update(dict.fromkeys(_NAMES, os.devnull))
try:
    import aiohttp
finally:
    for _name, _value in _before.items():
        if _value is None:
            del os.environ[_name]
        else:
            os.environ[_name] = _value

__all__ = ["aiohttp"]

"""Messages on the wire: `protos/` is written by people, `generated/` by `python tools/wire.py` from it, and committed."""

"""Messages on the wire: `protos/` is written by people, `generated/` made from it by `python tools/wire.py`."""

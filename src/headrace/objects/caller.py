"""Who writes to the store, in what way, and with which rights on parts of objects."""

from collections.abc import Callable
from typing import NamedTuple


class Caller(NamedTuple):
    """Who writes, and how. `user` is authorised already; `warn` collects warnings for the answer's headers.

    `may` answers for parts of an object that have a right of their own: verb, resource/part, name. `node` is the node
    that the user is of. `connection` numbers where the request came from, if one request follows the other there.
    """

    user: str = "system:headrace"
    field_manager: str = "headrace"
    validation: str = "Strict"
    dry_run: bool = False
    warn: Callable[[str], None] = lambda _: None
    may: Callable[[str, str, str], bool] = lambda verb, resource, name: True
    node: str = ""
    connection: int | None = None

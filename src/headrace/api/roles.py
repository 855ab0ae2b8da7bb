"""The roles that a user can be given, in order of what they allow; a node's is its own."""

from typing import Final, Literal, get_args

UserRole = Literal["viewer", "controller", "admin"]
USER_ROLES: Final[tuple[UserRole, ...]] = get_args(UserRole)

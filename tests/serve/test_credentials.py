"""A role that can be given is one that the API server knows by the group that it is given by."""

import pytest

from headrace.api.roles import USER_ROLES
from headrace.apiserver.identity import identity_of
from headrace.serve.credentials import GROUPS


@pytest.mark.parametrize("role", USER_ROLES)
def test_a_users_role_is_its_groups(role: str) -> None:
    assert identity_of("ann", (GROUPS[role],)).role == role

"""What a container of others is called once it is a Pod."""

import pytest

from headrace.objects.validation.names import dns_label
from headrace.serve.adoption import pod_name


@pytest.mark.parametrize(
    ("container", "name"),
    [
        ("/web_1", "web-1"),
        ("Web--", "web"),
        ("a" * 62 + "_b", "a" * 62),
        ("___", "adopted"),
        ("\u00fcber", "ber"),
    ],
)
def test_a_container_s_name_becomes_one_that_a_pod_may_have(container, name):
    assert pod_name(container) == name
    assert not dns_label(name)

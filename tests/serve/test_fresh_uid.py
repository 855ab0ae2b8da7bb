"""Identities of new objects."""

import uuid

from headrace.serve.home import fresh_uid


def test_a_fresh_uid_is_a_random_uuid_as_text():
    made = {fresh_uid() for _ in range(1000)}
    assert len(made) == 1000
    for text in made:
        read = uuid.UUID(text)
        assert (str(read), read.version, read.variant) == (text, 4, uuid.RFC_4122)

"""Frames come out of the stream as they went in, however it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.node.keeper import frames

MESSAGES = st.lists(
    st.dictionaries(st.text(max_size=8), st.one_of(st.integers(), st.text(), st.booleans())), max_size=5
)


@given(messages=MESSAGES, size=st.integers(1, 40))
def test_however_the_stream_is_cut_the_messages_are_the_same(messages, size: int) -> None:
    stream = b"".join(map(frames.encode, messages))
    buffer, found = bytearray(), []
    for at in range(0, len(stream), size):
        buffer += stream[at : at + size]
        found += frames.split(buffer)
    assert found == messages
    assert not buffer


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        pytest.param(b"\xff\xff\xff\xffabc", "must have at most", id="a length beyond the limit"),
        pytest.param(b"\x00\x00\x00\x02[]", "one JSON object", id="no object"),
        pytest.param(b"\x00\x00\x00\x02{x", "not JSON", id="no JSON"),
    ],
)
def test_what_is_no_frame_is_refused(stream: bytes, words: str) -> None:
    with pytest.raises(frames.BadFrame, match=words):
        frames.split(bytearray(stream))

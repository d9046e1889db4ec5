"""The loop over a block of LZ4, beside the library whose work it does."""

from __future__ import annotations

from collections.abc import Callable

import cramjam
import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from srm_common.wire.batches.codec import LZ4, compress
from srm_common.wire.reencoding import lz4_walk

#: Content with and without repetitions, near and far.
CONTENT = st.one_of(
    st.binary(max_size=600),
    st.builds(lambda one, times, end: one * times + end, st.binary(max_size=70), st.integers(0, 40), st.binary()),
    # Few literals and short repetitions, as in records of JSON.
    st.lists(
        st.one_of(
            st.sampled_from((b'"sensor":"', b'","value":', b'{"site":"north","device":"FX-')), st.binary(max_size=16)
        ),
        max_size=60,
    ).map(b"".join),
)


def array(data: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


def unpacked(
    loop: Callable[..., tuple[int, int, int]], data: bytes, at: int, end: int, out: npt.NDArray[np.uint8], start: int
) -> int:
    """Where the content of a whole block ends."""
    stop, place, _ = loop(array(data), at, end, out, start, start, lz4_walk.ANYWHERE, lz4_walk.ANYWHERE, None, None, 0)
    assert stop == (end if place >= 0 else -1)
    return place


@given(CONTENT, st.integers(0, 5), st.integers(0, 40))
def test_a_block(content: bytes, before: int, behind: int) -> None:
    block = bytes(cramjam.lz4.compress_block(content, store_size=False))
    end = before + len(content)
    out = np.full(end + behind, 7, np.uint8)
    assert unpacked(lz4_walk.unlz4_block, b"x" + block, 1, 1 + len(block), out, before) == end
    assert out[:end].tobytes() == bytes([7] * before) + content
    if content:
        less = np.full(end, 7, np.uint8)
        assert unpacked(lz4_walk.unlz4_block, block, 0, len(block), less[:-1], before) == -1
        assert less[-1] == 7


@given(CONTENT, st.data())
def test_a_damaged_block_stays_within_its_bounds(content: bytes, data: st.DataObject) -> None:
    block = bytearray(cramjam.lz4.compress_block(content, store_size=False))
    for _ in range(data.draw(st.integers(1, 3))):
        block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(block)))
    room = data.draw(st.integers(0, 2 * len(content) + 40))
    out = np.full((2, room + 32), 7, np.uint8)
    plain = getattr(lz4_walk.unlz4_block, "py_func", lz4_walk.unlz4_block)
    ends = [
        unpacked(loop, bytes(block), 0, end, row[:room], 0)
        for loop, row in zip((lz4_walk.unlz4_block, plain), out, strict=True)
    ]
    assert ends[0] == ends[1]
    # Behind its end the compiled one may have left more, as it copies sixteen bytes at a time.
    assert (out[0, : max(ends[0], 0)] == out[1, : max(ends[0], 0)]).all()
    assert (out[:, room:] == 7).all()


@given(CONTENT)
def test_a_frame_of_one_block(content: bytes) -> None:
    frame = bytes(compress(LZ4, content))
    out = np.empty(len(content), np.uint8)
    assert lz4_walk.unlz4(array(frame), 0, len(frame), out, 0) == (len(content) if content else -1)
    assert not content or out.tobytes() == content
    for cut in range(len(frame)):
        assert lz4_walk.unlz4(array(frame), 0, cut, out, 0) == -1


@given(st.sets(st.integers(0, 299)), st.integers(0, 300), st.integers(0, 300))
def test_a_mark_is_seen_wherever_it_is(places: set[int], start: int, end: int) -> None:
    marked = np.zeros(300 // 8 + 9, np.uint8)
    for place in places:
        marked[place >> 3] |= 1 << (place & 7)
    expected = any(start <= place < end for place in places)
    plain = getattr(lz4_walk.any_marked, "py_func", lz4_walk.any_marked)
    assert lz4_walk.any_marked(marked, start, end) == plain(marked, start, end) == expected

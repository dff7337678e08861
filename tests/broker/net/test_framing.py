"""Test that request framing does not depend on how bytes are split, and that a claimed length allocates no memory."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.net.framing import BASE_CAPACITY, GROWTH_STEP, HANDED_OVER_FROM, FrameBuffer, FrameError

MAX = 100 * 1024 * 1024


def feed(buffer: FrameBuffer, data: bytes, cuts: list[int]) -> list[bytes]:
    """Feed `data` in pieces of the given sizes (cycled); the frames that come out."""
    frames: list[bytes] = []
    position = turn = 0
    while position < len(data):
        window = buffer.window()
        assert len(window) > 0
        count = min(len(window), cuts[turn % len(cuts)], len(data) - position)
        turn += 1
        window[:count] = data[position : position + count]
        buffer.received(count)
        position += count
        while (frame := buffer.next_frame()) is not None:
            frames.append(bytes(frame))
    return frames


def framed(frames: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


@given(
    st.lists(st.binary(max_size=300), max_size=40),
    st.lists(st.integers(1, 2000), min_size=1, max_size=10),
)
def test_frames_do_not_depend_on_how_bytes_arrive(frames: list[bytes], cuts: list[int]) -> None:
    assert feed(FrameBuffer(MAX), framed(frames), cuts) == frames


@given(
    st.lists(st.integers(0, 3 * BASE_CAPACITY), min_size=1, max_size=6),
    st.lists(st.integers(1, 200_000), min_size=1, max_size=4),
)
def test_frames_larger_than_the_buffer(sizes: list[int], cuts: list[int]) -> None:
    frames = [bytes([index % 251]) * size for index, size in enumerate(sizes)]
    assert feed(FrameBuffer(MAX), framed(frames), cuts) == frames


def test_a_large_frame_and_the_small_ones_around_it() -> None:
    frames = [b"a" * 10, b"b" * (3 * GROWTH_STEP + 17), b"c" * 5, b"", b"d" * BASE_CAPACITY]
    assert feed(FrameBuffer(MAX), framed(frames), [BASE_CAPACITY, 7, 100_000]) == frames


@pytest.mark.parametrize("size", [-1, -(1 << 31), MAX + 1, (1 << 31) - 1])
def test_an_absurd_size_is_refused(size: int) -> None:
    buffer = FrameBuffer(MAX)
    buffer.window()[:4] = struct.pack(">i", size)
    buffer.received(4)
    with pytest.raises(FrameError, match=str(size)):
        buffer.next_frame()


def test_the_largest_size_is_allowed() -> None:
    frame = b"x" * 1000
    assert feed(FrameBuffer(1000), framed([frame]), [300]) == [frame]


def test_a_claim_takes_no_memory_until_bytes_arrive() -> None:
    buffer = FrameBuffer(MAX)
    buffer.window()[:4] = struct.pack(">i", MAX)
    buffer.received(4)
    assert buffer.next_frame() is None
    assert len(buffer.window()) > 0
    assert buffer.capacity == BASE_CAPACITY
    received = 4
    while received < 3 * GROWTH_STEP:
        window = buffer.window()
        buffer.received(len(window))
        received += len(window)
        assert buffer.next_frame() is None
        assert buffer.capacity <= 2 * received + GROWTH_STEP


def test_what_was_received_of_a_large_frame_is_not_moved() -> None:
    """The buffer grows many times, and is another one at the beginning alone."""
    frame = bytes(range(256)) * (40 * GROWTH_STEP // 256)
    data, position, moved = framed([frame]), 0, 0
    buffer = FrameBuffer(MAX)
    before: object = None
    result: bytes | None = None
    while position < len(data):
        window = buffer.window()
        if window.obj is not before:
            moved = position
            before = window.obj
        count = min(len(window), 100_000, len(data) - position)
        window[:count] = data[position : position + count]
        del window
        buffer.received(count)
        position += count
        view = buffer.next_frame()
        result = None if view is None else bytes(view)
    assert result == frame
    assert moved <= 2 * GROWTH_STEP


def test_a_large_frame_that_somebody_looks_at_is_whole() -> None:
    frame = bytes(range(256)) * (9 * GROWTH_STEP // 256)
    data, position = framed([frame]), 0
    buffer, seen = FrameBuffer(MAX), []
    view: memoryview | None = None
    while position < len(data):
        window = buffer.window()
        seen.append(window)
        count = min(len(window), 700_000, len(data) - position)
        window[:count] = data[position : position + count]
        buffer.received(count)
        position += count
        view = buffer.next_frame()
        assert (view is not None) == (position == len(data))
    assert bytes(view or b"") == frame


def receive(buffer: FrameBuffer, data: bytes) -> memoryview:
    """Receive `data`, and take the first frame that is whole once all of it has come."""
    position = 0
    while position < len(data):
        assert buffer.next_frame() is None
        window = buffer.window()
        count = min(len(window), len(data) - position)
        window[:count] = data[position : position + count]
        buffer.received(count)
        position += count
    frame = buffer.next_frame()
    assert frame is not None
    return frame


@pytest.mark.parametrize("size", [HANDED_OVER_FROM, HANDED_OVER_FROM - 1, 5])
def test_a_large_frame_that_is_handed_over_stays_as_it_is(size: int) -> None:
    buffer = FrameBuffer(MAX)
    frame = receive(buffer, framed([b"a" * size]))
    is_handed_over = buffer.hand_over(size)
    assert is_handed_over == (size >= HANDED_OVER_FROM)
    assert (buffer.capacity == BASE_CAPACITY) == (is_handed_over or size < BASE_CAPACITY)
    following = b"b" * (size + 1)
    assert bytes(receive(buffer, framed([following]))) == following
    if is_handed_over:
        assert bytes(frame) == b"a" * size
        frame[:1] = b"z"


@pytest.mark.parametrize("after", [0, 50_000, GROWTH_STEP + 1])
def test_what_came_after_a_frame_that_is_handed_over_is_not_lost(after: int) -> None:
    """A buffer that is large already receives beyond the frame."""
    first, second = b"a" * (HANDED_OVER_FROM + 100), b"b" * after
    buffer = FrameBuffer(MAX)
    receive(buffer, framed([bytes(2 * HANDED_OVER_FROM)]))
    frame = receive(buffer, framed([first, second]))
    assert buffer.hand_over(len(frame)) == (after <= GROWTH_STEP), "much is not moved, the frame is copied instead"
    following = buffer.next_frame()
    assert following is not None
    assert bytes(following) == second
    assert bytes(frame) == first
    assert bytes(receive(buffer, framed([b"c"]))) == b"c"


def test_memory_is_given_back() -> None:
    buffer = FrameBuffer(MAX)
    feed(buffer, framed([b"x" * GROWTH_STEP]), [GROWTH_STEP])
    grown = buffer.capacity
    assert grown > BASE_CAPACITY
    assert buffer.shrink() == grown - BASE_CAPACITY
    assert buffer.capacity == 0
    assert feed(buffer, framed([b"after"]), [3]) == [b"after"]


def test_a_buffer_without_bytes_takes_no_memory() -> None:
    buffer = FrameBuffer(MAX)
    assert buffer.capacity == 0
    assert feed(buffer, framed([b"first"]), [3]) == [b"first"]
    assert buffer.capacity == BASE_CAPACITY
    assert buffer.shrink() == 0
    assert buffer.capacity == 0
    assert len(buffer.head) == 0
    assert buffer.wanted() == 0
    assert buffer.next_frame() is None
    assert feed(buffer, framed([b"after"]), [2]) == [b"after"]
    window = buffer.window()
    window[:2] = b"\0\0"
    buffer.received(2)
    assert buffer.shrink() == 0
    assert buffer.capacity == BASE_CAPACITY, "a part of a frame is kept"


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (
            bytes.fromhex("1603010200010001fc0303"),
            "looks like a TLS handshake: this listener has no TLS; set",
        ),
        (b"GET / HTTP/1.1", "looks like HTTP"),
        (b"OPTIONS * HTTP/1.1", "looks like HTTP"),
        (b"PUT /x HTTP/1.1", "looks like HTTP"),
    ],
)
def test_other_protocols_are_named_with_the_remedy(data: bytes, hint: str) -> None:
    with pytest.raises(FrameError, match=hint):
        frames_of(data)


def test_other_sizes_out_of_range_are_not_taken_for_other_protocols() -> None:
    with pytest.raises(FrameError) as raised:
        frames_of(b"\x7f\xff\xff\xff")
    assert "looks like" not in str(raised.value)


def frames_of(data: bytes) -> list[bytes]:
    return feed(FrameBuffer(100 << 20), data, [len(data)])

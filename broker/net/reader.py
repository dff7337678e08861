"""The receiving half of a connection: receives bytes and splits them into frames, within the memory for requests.

A frame's memory is taken before its bytes are received. If no memory is left, or if the buffer is full of frames that
wait for the current request, the reader stops receiving, so that TCP slows the client down.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.net.framing import FrameBuffer, FrameLimits
from broker.net.limits.memory import RequestMemory
from broker.net.limits.throttle import Throttle
from broker.net.transport.interface import Transport


class Reader:
    """Receive into a `FrameBuffer` and account for its memory.

    Args:
        on_received: called when bytes were received, which may complete frames.
        on_end: called when the peer has closed its side, or the transport is broken.

    Attributes:
        frames: the buffer of received bytes.
        is_bounded: whether memory is given back as soon as requests are done with it, because other connections may
            wait for it; otherwise the buffer keeps its size for the next frame.
        is_receiving: whether the reader receives bytes; False while it is paused.
        last_active: the time at which bytes were last received.
    """

    __slots__ = (
        "_is_closed", "_is_copied", "_on_end", "_on_received", "_recv_into", "_share", "_throttle", "_time",
        "_transport", "frames", "is_bounded", "is_receiving", "last_active",
    )  # fmt: skip

    def __init__(
        self,
        transport: Transport,
        memory: RequestMemory,
        throttle: Throttle,
        max_request: int,
        time: Callable[[], float],
        on_received: Callable[[], None],
        on_end: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._recv_into = transport.recv_into
        self.is_bounded = memory.bounded
        self._share = memory.share(self._on_granted)
        self._throttle = throttle
        self._time = time
        self._on_received = on_received
        self._on_end = on_end
        self._is_copied = False
        """True if the memory taken is that of a copy, which is still needed when the frame has left the buffer."""
        self._is_closed = False
        self.frames = FrameBuffer(max_request)
        self.is_receiving = False
        self.last_active = time()

    @property
    def taken(self) -> int:
        """The bytes of memory taken: for the buffer beyond its base, and for the rest of the frame being received."""
        return self._share.taken

    @property
    def waits_for_memory(self) -> bool:
        """Return whether receiving waits until other connections give memory back."""
        return self._share.waits

    def resume(self) -> None:
        """Start to receive bytes."""
        if not self.is_receiving:
            self.is_receiving = True
            self._transport.watch_readable(self._on_readable)

    def pause(self) -> None:
        """Stop receiving; further bytes wait in the kernel."""
        if self.is_receiving:
            self.is_receiving = False
            self._transport.unwatch_readable()

    def _on_readable(self) -> None:
        self.last_active = self._time()
        frames = self.frames
        share = self._share
        more = frames.wanted() - share.taken
        if more > 0 and not share.take(more):
            self.pause()
            return
        window = frames.window()
        if not len(window):
            self.pause()
            return
        try:
            count = self._recv_into(window)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            count = 0
        if count == 0:
            self._on_end()
            return
        frames.received(count)
        self._on_received()

    def _on_granted(self) -> None:
        if not self._throttle.active:
            self.resume()

    # -- memory

    def admit(self, limits: FrameLimits, memory: RequestMemory) -> None:
        """Take other limits and another memory for the requests that follow, between two frames."""
        self.frames.limit(limits)
        self._share.close()
        self._share.keep(0)
        self._share = memory.share(self._on_granted)
        self.is_bounded = memory.bounded

    def keep(self, frame: memoryview) -> memoryview:
        """Return the bytes of the current frame for use beyond its dispatch; they count as `keep_copy` says."""
        return frame if self.hand_over(len(frame)) else memoryview(bytearray(frame))

    def hand_over(self, size: int) -> bool:
        """Leave the current frame, of `size` bytes, to its views, or return False; see `FrameBuffer.hand_over`.

        It counts as `keep_copy` says, and so does the copy that the caller makes if this returns False.
        """
        self.keep_copy()
        is_handed_over = self.frames.hand_over(size)
        if is_handed_over and not self._is_copied:
            # Without a bound only the buffer counts, which has begun anew.
            self._share.keep(self.frames.beyond_base)
        return is_handed_over

    def keep_copy(self) -> None:
        """Keep the memory taken until the frame's copy is gone or the request is answered."""
        self._is_copied = self.is_bounded and self._share.taken > 0

    def copy_gone(self) -> None:
        """Give back the memory kept for a copy, even if the request is not answered yet."""
        if not self._is_copied:
            return
        self._is_copied = False
        if self._is_closed:
            self._share.keep(0)
        else:
            self._give_back()

    def release(self, is_answered: bool, is_quiet: bool = False) -> None:
        """Give back memory that no frame needs any more, before the next frame is received.

        Args:
            is_answered: whether the current request has its response, so that its copy is no longer needed.
            is_quiet: whether nothing is received for a while, so that the buffer is not needed even without a
                bound.
        """
        if is_answered:
            self._is_copied = False
        if is_quiet or self._share.taken:
            self._give_back()

    def trim(self) -> None:
        """Give back the buffer if no frame is in it."""
        if self.frames.shrink():
            self.release(is_answered=True, is_quiet=True)

    def _give_back(self) -> None:
        frames = self.frames
        if frames.is_receiving:
            return
        frames.fit()
        if not self._is_copied:
            self._share.keep(frames.beyond_base)

    # -- end of life

    def close(self, is_answered: bool) -> None:
        """Stop receiving for good. Give all memory back, unless a worker has a copy of a frame.

        Args:
            is_answered: whether the current request has its response, sent or not, so that its copy is not
                needed.
        """
        self.pause()
        self._is_closed = True
        self._share.close()
        if is_answered or not self._is_copied:
            self._is_copied = False
            self._share.keep(0)
        self._on_received = self._on_end = _nothing


def _nothing() -> None:
    pass

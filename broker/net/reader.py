"""The receiving half of a connection: bytes in, frames out, within the memory for requests.

A frame's memory is taken before its bytes are received. Where none is left, or where the buffer is full of frames that
wait for the request under way, the reader stops receiving, so that TCP pushes back on the client.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.net.framing import BASE_CAPACITY, FrameBuffer
from broker.net.memory import RequestMemory
from broker.net.throttle import Throttle
from broker.net.transport.interface import Transport


class Reader:
    """Receives into a `FrameBuffer` and accounts for its memory.

    Args:
        on_received: called when bytes have come; whole frames may be among them.
        on_end: called when the peer sends nothing any more, or the transport is broken.

    Attributes:
        frames: what was received.
        is_bounded: whether memory is to be given back as soon as requests are done with it, for others may wait for it;
            otherwise the buffer keeps its size for the next frame.
        is_receiving: whether bytes are received as they come.
        last_active: the time when bytes came last.
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
        """The share is for a copy of the frame under way, which outlives its bytes in the buffer."""
        self._is_closed = False
        self.frames = FrameBuffer(max_request)
        self.is_receiving = False
        self.last_active = time()

    @property
    def taken(self) -> int:
        """Bytes of memory taken: for the buffer beyond its base, and for what is to come of the frame in it."""
        return self._share.taken

    @property
    def waits_for_memory(self) -> bool:
        """Whether the next bytes are received once other connections have given memory back."""
        return self._share.waits

    def resume(self) -> None:
        """Receive bytes as they come."""
        if not self.is_receiving:
            self.is_receiving = True
            self._transport.watch_readable(self._on_readable)

    def pause(self) -> None:
        """Leave what comes with the kernel."""
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

    def keep_copy(self) -> None:
        """Keep what is taken until the frame's copy is gone or the request is answered."""
        self._is_copied = self.is_bounded and self._share.taken > 0

    def copy_gone(self) -> None:
        """Give back what was kept for a copy, though the request may not be answered yet."""
        if not self._is_copied:
            return
        self._is_copied = False
        if self._is_closed:
            self._share.keep(0)
        else:
            self._give_back()

    def release(self, is_answered: bool, is_quiet: bool = False) -> None:
        """Give back memory that no frame takes any more, before the next frame is begun.

        Args:
            is_answered: the request under way has its response, so nobody needs its copy.
            is_quiet: the client is to send nothing for a while, so the buffer is not needed whatever the bound.
        """
        if is_answered:
            self._is_copied = False
        if is_quiet or self._share.taken:
            self._give_back()

    def trim(self) -> None:
        """Give back the buffer, except for its base, where nothing is under way on the connection."""
        if self.frames.shrink():
            self.release(is_answered=True, is_quiet=True)

    def _give_back(self) -> None:
        frames = self.frames
        if frames.is_receiving:
            return
        frames.fit()
        if not self._is_copied:
            self._share.keep(frames.capacity - BASE_CAPACITY)

    # -- end of life

    def close(self, is_answered: bool) -> None:
        """Receive nothing any more. Give all memory back, unless a worker has a copy of a frame.

        Args:
            is_answered: the request under way has its response, though it may not be sent: nobody needs its copy.
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

"""A transport over TLS: the bytes of another transport, encrypted.

OpenSSL works in memory (`ssl.MemoryBIO`), so no call of it waits for the network. What was decrypted and not received
yet makes no descriptor readable; the transport calls back for it by itself. Encrypted bytes that the peer does not take
are at most those of one part.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import cast

from broker.net.chunks import Bytes
from broker.net.sockets.event_loop import Clock
from broker.net.tls.turns import HandshakeTurns
from broker.net.transport.interface import Transport
from broker.net.wrong_protocol import TLS_ALERT, http_answer, is_http
from broker.security.tls.failures import HandshakeError, of_error

PART_BYTES = 256 * 1024
"""The most plain bytes that are encrypted at once, and the most encrypted ones that are received at once."""
HANDSHAKE_SECONDS = 10.0
"""The longest time for a handshake."""
LINGER_SECONDS = 1.0
"""The time for which a connection whose handshake has failed waits for the peer to close it.

To close it while bytes of the peer are unread would reset it, and the peer would not learn why.
"""
MOST_OWED = 64 * 1024
"""The most bytes that the peer's messages may make OpenSSL send of its own accord while the peer takes none of them."""
_RECORD_OF_HANDSHAKE = 0x16
_NOTHING = memoryview(b"")


class State(IntEnum):
    """The states of a connection. They follow each other, but an open connection never drains."""

    HANDSHAKE = 0
    OPEN = 1
    DRAINING = 2
    """The handshake has failed; its alert is on the way."""
    BROKEN = 3
    CLOSED = 4


class TlsTransport:
    """Implements `Transport` over a transport that carries TLS, which it owns.

    Args:
        carrier: carries the encrypted bytes.
        context: the listener's certificates and choices.
        clock: the event loop.
        turns: the turns of all handshakes.
        scratch: a buffer of `PART_BYTES`, which all transports of a loop share.
        on_established: called when the handshake has succeeded, before anything is received.
        on_refused: called when it has failed; the text says why.

    Raises (from `on_established`):
        HandshakeError: the peer may not come in.
    """

    __slots__ = (
        "_carrier", "_clock", "_deadline", "_failure", "_has_begun", "_has_ended", "_incoming",
        "_is_established", "_is_scheduled", "_may_have_more", "_on_established", "_on_readable", "_on_refused",
        "_on_writable", "_outgoing", "_reads", "_rest", "_scratch", "_send_failure", "_state", "_tls", "_turns",
        "_waits_for_turn", "_writes", "peer",
    )  # fmt: skip

    def __init__(
        self,
        carrier: Transport,
        context: ssl.SSLContext,
        clock: Clock,
        turns: HandshakeTurns,
        scratch: memoryview,
        on_established: Callable[[ssl.SSLObject], None],
        on_refused: Callable[[str], None],
    ) -> None:
        self.peer = carrier.peer
        self._carrier = carrier
        self._clock = clock
        self._turns = turns
        self._scratch = scratch
        self._on_established = on_established
        self._on_refused = on_refused
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._state = State.HANDSHAKE
        self._failure: OSError | None = None
        self._send_failure: OSError | None = None
        """The reason why nothing can be sent any more. What the peer has sent before is received all the same."""
        self._has_begun = False
        """Bytes of the peer were received."""
        self._has_ended = False
        """The peer sends nothing more."""
        self._may_have_more = False
        """OpenSSL may have decrypted bytes that were not received."""
        self._waits_for_turn = self._is_established = False
        self._rest = _NOTHING
        """Encrypted bytes that the carrier did not take."""
        self._on_readable: Callable[[], None] | None = None
        self._on_writable: Callable[[], None] | None = None
        self._reads = self._writes = False
        self._is_scheduled = False
        self._deadline = clock.call_later(HANDSHAKE_SECONDS, self._expire)

    @property
    def has_unsent(self) -> bool:
        return len(self._rest) > 0 or self._outgoing.pending > 0

    # -- watching

    def watch_readable(self, callback: Callable[[], None]) -> None:
        self._on_readable = callback
        self._register()
        self._call_back_soon()

    def unwatch_readable(self) -> None:
        self._on_readable = None
        self._register()

    def watch_writable(self, callback: Callable[[], None]) -> None:
        self._on_writable = callback
        self._register()
        self._call_back_soon()

    def unwatch_writable(self) -> None:
        self._on_writable = None
        self._register()

    def _register(self) -> None:
        """Watch the carrier as far as that is of use now."""
        state = self._state
        reads = state is State.DRAINING or (
            self._on_readable is not None
            and state < State.DRAINING
            and not self._has_ended
            and not self._waits_for_turn
        )
        # Of its own accord, too: for a handshake's bytes, and for the rest of a part.
        writes = state < State.BROKEN and (self.has_unsent or (self._on_writable is not None and state is State.OPEN))
        if reads is not self._reads:
            self._reads = reads
            if reads:
                self._carrier.watch_readable(self._carrier_readable)
            else:
                self._carrier.unwatch_readable()
        if writes is not self._writes:
            self._writes = writes
            if writes:
                self._carrier.watch_writable(self._carrier_writable)
            else:
                self._carrier.unwatch_writable()

    def _call_back_soon(self) -> None:
        if not self._is_scheduled and (self._is_readable or self._is_broken_writable):
            self._is_scheduled = True
            self._clock.call_soon(self._call_back)

    @property
    def _is_readable(self) -> bool:
        if self._on_readable is None or self._state not in (State.OPEN, State.BROKEN):
            return False
        return self._may_have_more or self._has_ended or self._state is State.BROKEN

    @property
    def _is_broken_writable(self) -> bool:
        is_broken = self._state is State.BROKEN or self._send_failure is not None
        return self._on_writable is not None and is_broken

    def _call_back(self) -> None:
        self._is_scheduled = False
        if self._is_readable and self._on_readable is not None:
            self._on_readable()
        if self._is_broken_writable and self._on_writable is not None:
            self._on_writable()
        self._call_back_soon()

    # -- receiving

    def recv_into(self, window: memoryview) -> int:
        if self._state is State.OPEN and self._may_have_more:
            count = self._decrypt(window)
            if count:
                return count
        if self._failure is not None and self._state >= State.BROKEN:
            raise self._failure
        if self._has_ended and self._state is State.OPEN:
            return 0
        raise BlockingIOError

    def _decrypt(self, window: memoryview) -> int:
        """Fill the window with decrypted bytes, as far as there are any."""
        # Typeshed knows `read` only as it returns bytes.
        read = cast(Callable[[int, memoryview], int], self._tls.read)
        size, total = len(window), 0
        try:
            while total < size:
                count = read(size - total, window[total:])
                if not count:
                    self._end_received()
                    break
                total += count
        except ssl.SSLWantReadError:
            self._may_have_more = False
        except ssl.SSLZeroReturnError:
            self._end_received()
        except ssl.SSLError as error:
            self._push()
            self._break(error)
        if self._outgoing.pending:
            self._push()
            if len(self._rest) + self._outgoing.pending > PART_BYTES + MOST_OWED:
                self._break(ConnectionAbortedError("the peer asks for answers, and takes none"))
        return total

    def _end_received(self) -> None:
        self._may_have_more = False
        self._has_ended = True
        self._register()

    def _carrier_readable(self) -> None:
        if self._state is State.OPEN and self._may_have_more:
            # No more is taken from the kernel until this is received. A callback for it is scheduled.
            return
        scratch = self._scratch
        try:
            count = self._carrier.recv_into(scratch)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(error)
            return
        if self._state is State.DRAINING:
            if not count:
                self._break(None)
            return
        if not count:
            self._lose(None)
            return
        if self._state is State.HANDSHAKE:
            self._handshake_received(scratch[:count])
            return
        self._incoming.write(scratch[:count])
        self._may_have_more = True
        if self._on_readable is not None:
            self._on_readable()
        self._call_back_soon()

    def _lose(self, error: OSError | None) -> None:
        """Note that the carrier has ended, or has failed with an error."""
        if self._state is State.OPEN and error is None:
            self._has_ended = True
            self._register()
            self._call_back_soon()
            return
        if self._state is State.HANDSHAKE:
            self._on_refused("the peer has closed the connection during the handshake")
        self._break(error)

    # -- the handshake

    def _handshake_received(self, data: memoryview) -> None:
        if not self._has_begun and data[0] != _RECORD_OF_HANDSHAKE:
            self._refuse(_no_tls(bytes(data[:8])))
            return
        self._has_begun = True
        self._incoming.write(data)
        self._waits_for_turn = True
        self._register()
        self._turns.run(self._shake_hands)

    def _shake_hands(self) -> None:
        """Do the next step of the handshake."""
        self._waits_for_turn = False
        if self._state is not State.HANDSHAKE:
            return
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._push()
            return
        except ssl.SSLError as error:
            self._refuse(of_error(error))
            return
        try:
            self._on_established(self._tls)
        except HandshakeError as error:
            self._refuse(error)
            return
        # Nothing is received until the peer has taken what belongs to the handshake.
        self._is_established = self._waits_for_turn = True
        self._push()
        self._open_if_pushed()

    def _open_if_pushed(self) -> None:
        if self._state is not State.HANDSHAKE or not self._is_established or self.has_unsent:
            return
        self._deadline.cancel()
        self._state = State.OPEN
        self._waits_for_turn = False
        # A client may send its first request with the end of the handshake. OpenSSL does not read ahead.
        self._may_have_more = self._incoming.pending > 0
        self._register()
        self._call_back_soon()

    def _refuse(self, error: HandshakeError) -> None:
        """Send the alert of a handshake that has failed, and wait a little for the peer to close."""
        self._on_refused(str(error))
        self._deadline.cancel()
        self._failure = ConnectionAbortedError(str(error))
        if error.answer:
            self._outgoing.write(error.answer)
        self._state = State.DRAINING
        self._deadline = self._clock.call_later(LINGER_SECONDS, self._expire)
        self._push()
        self._end_if_pushed()

    def _end_if_pushed(self) -> None:
        if self._state is State.DRAINING and not self.has_unsent:
            with suppress(OSError):
                self._carrier.end_sending()

    def _expire(self) -> None:
        if self._state is State.HANDSHAKE:
            self._on_refused(f"the handshake was not done within {HANDSHAKE_SECONDS:.0f} s")
        self._break(TimeoutError("the handshake took too long"))

    # -- sending

    def send(self, data: Bytes) -> int:
        self._check_sendable()
        part = data if len(data) <= PART_BYTES else memoryview(data)[:PART_BYTES]
        try:
            count = self._tls.write(part)
        except ssl.SSLError as error:
            self._break(error)
            raise
        self._push()
        return count

    def send_many(self, chunks: Sequence[Bytes], more: bool) -> int:
        parts: list[Bytes] = []
        room = PART_BYTES
        for chunk in chunks:
            parts.append(chunk if len(chunk) <= room else memoryview(chunk)[:room])
            room -= len(chunk)
            if room <= 0:
                break
        return self.send(parts[0] if len(parts) == 1 else b"".join(parts))

    def _check_sendable(self) -> None:
        if self._send_failure is not None:
            raise self._send_failure
        if self._state is State.OPEN and not self.has_unsent:
            return
        if self._failure is not None and self._state >= State.BROKEN:
            raise self._failure
        raise BlockingIOError

    def send_file(self, fd: int, position: int, count: int) -> int:
        self._check_sendable()
        data = os.pread(fd, min(count, PART_BYTES), position)
        return self.send(data) if data else 0

    def _push(self) -> None:
        """Give the carrier encrypted bytes, as many as it takes."""
        carrier, outgoing, rest = self._carrier, self._outgoing, self._rest
        try:
            while len(rest) or outgoing.pending:
                if not len(rest):
                    rest = memoryview(outgoing.read())
                rest = rest[carrier.send(rest) :]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._cannot_send(error)
            return
        self._rest = rest
        self._register()

    def _cannot_send(self, error: OSError) -> None:
        """Note that the peer takes nothing more. What it has sent before is received all the same."""
        if not self._is_established:
            self._break(error)
            return
        self._send_failure = error
        self._rest = _NOTHING
        self._outgoing.read()
        self._open_if_pushed()
        self._register()
        self._call_back_soon()

    def _carrier_writable(self) -> None:
        if self.has_unsent:
            self._push()
        if self.has_unsent:
            return
        self._open_if_pushed()
        self._end_if_pushed()
        if self._on_writable is not None and self._state is State.OPEN:
            self._on_writable()

    def end_sending(self) -> None:
        """See `Transport`. TLS's own closing message (close_notify) is sent first."""
        self._say_goodbye()
        self._carrier.end_sending()

    # -- end of life

    def _break(self, error: OSError | None) -> None:
        """Let all further calls fail, and call back so that the connection is closed."""
        if self._state >= State.BROKEN:
            return
        self._deadline.cancel()
        self._state = State.BROKEN
        if self._failure is None:
            self._failure = error or ConnectionResetError("the peer has closed the connection")
        self._forget()
        self._register()
        self._call_back_soon()

    def _forget(self) -> None:
        """Drop bytes that are not sent or received any more."""
        self._rest = _NOTHING
        self._outgoing.read()
        self._incoming.read()
        self._may_have_more = False

    def _say_goodbye(self) -> None:
        """Tell the peer that no more comes, so that it knows that nothing was cut off, if the carrier takes it now."""
        if self._state is State.OPEN and not self.has_unsent:
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            self._push()

    def close(self) -> None:
        if self._state is State.CLOSED:
            return
        self._say_goodbye()
        self._deadline.cancel()
        self._state = State.CLOSED
        self._on_readable = self._on_writable = None
        self._forget()
        self._register()
        self._carrier.close()


def _no_tls(first: bytes) -> HandshakeError:
    """Return what to say of a peer whose first bytes are not TLS, and to it."""
    if is_http(first):
        return HandshakeError("it speaks HTTP, and this listener speaks Kafka's protocol over TLS", http_answer())
    return HandshakeError("it does not speak TLS: set security.protocol=SSL, or SASL_SSL, in the client", TLS_ALERT)

"""A broker over real sockets whose responses a test scripts, to do what a healthy broker never does."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, Self

from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.codec import decode_message, decode_request_header, encode_response
from kafkalog.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kafkalog.protocol.messages.fetch import FetchRequest
from kafkalog.protocol.messages.list_offsets import ListOffsetsRequest
from kafkalog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkalog.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkalog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafkalog.protocol.schema import Request, Response
from tests.support.wire import receive_frame


class Halted(NamedTuple):
    """A response whose second half is sent when `until` is set."""

    response: Response
    until: threading.Event


class Silence(NamedTuple):
    """No response, as for a request that expects none."""


Answer = Response | Halted | Silence | bytes | None
"""A response; or bytes to send before the connection is closed; or None, to close it at once."""
Handler = Callable[[Any], Answer]
_HALT_S = 200.0

REQUESTS: dict[int, type[Request]] = {
    cls.api_key: cls
    for cls in (
        ApiVersionsRequest,
        FetchRequest,
        ListOffsetsRequest,
        MetadataRequest,
        SaslAuthenticateRequest,
        SaslHandshakeRequest,
    )
}


def api_versions(*more: type[Request], **limits: int) -> ApiVersionsResponse:
    """Return every API that this server knows, and `more`; `limits` lower newest versions, by name."""
    known = {**REQUESTS, **{cls.api_key: cls for cls in more}}
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=0, max_version=limits.get(ApiKey(key).name, cls.max_version))
            for key, cls in known.items()
        ]
    )


class ScriptedBroker:
    """A broker that answers each request with its handler's result, and ApiVersions properly without a handler.

    It knows the requests of its handlers besides `REQUESTS`.
    `seen` counts the requests by class; `connections` how many were made.
    """

    def __init__(
        self,
        handlers: dict[type[Request], Handler] | None = None,
        *,
        shift_ids: int = 0,
        tls: ssl.SSLContext | None = None,
        receive_buffer: int | None = None,
    ) -> None:
        """Set `receive_buffer`, the bytes that a socket accepts without reads; megabytes by default."""
        self.handlers: dict[type[Request], Handler] = {
            ApiVersionsRequest: lambda request: api_versions(*self.handlers),
            # A listener without SASL.
            SaslHandshakeRequest: lambda request: SaslHandshakeResponse(error_code=34),
            **(handlers or {}),
        }
        self.shift_ids = shift_ids
        """A number added to the correlation ids of all responses except those to ApiVersions."""
        self.tls = tls
        self.seen: Counter[type[Request]] = Counter()
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        # A handler may ask for the port after the listener was closed.
        self.port: int = self._listener.getsockname()[1]
        if receive_buffer is not None:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self._accepting = threading.Thread(target=self._accept)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop_listening()
        self.hang_up()
        for thread in self._threads:
            thread.join(10)

    def stop_listening(self) -> None:
        """Refuse new connections."""
        if self._accepting.is_alive():
            self._listener.shutdown(socket.SHUT_RDWR)
            self._accepting.join(10)
            self._listener.close()

    def hang_up(self) -> None:
        """Close all connections."""
        for connection in self._open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                # The peer was faster.
                continue

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        if self.tls is not None:
            try:
                connection = self.tls.wrap_socket(connection, server_side=True)
            except OSError:
                # The client does not trust us, or does not speak TLS.
                connection.close()
                return
        with connection:
            while True:
                try:
                    frame = receive_frame(connection)
                except OSError:
                    return
                if not frame:
                    return
                header, pos = decode_request_header(frame)
                known = {**REQUESTS, **{cls.api_key: cls for cls in self.handlers}}
                cls = known[header.api_key]
                request, _ = decode_message(cls, header.api_version, frame, pos)
                self.seen[cls] += 1
                answer, until = self.handlers[cls](request), None
                if isinstance(answer, Halted):
                    answer, until = answer
                if isinstance(answer, Silence):
                    continue
                if not isinstance(answer, Response):
                    if answer is not None:
                        connection.sendall(answer)
                    return
                version = header.api_version
                if isinstance(answer, ApiVersionsResponse) and answer.error_code:
                    version = 0
                shift = 0 if cls is ApiVersionsRequest else self.shift_ids
                chunks = encode_response(answer, version, header.correlation_id + shift)
                data = b"".join(bytes(chunk) for chunk in chunks)  # type: ignore[arg-type]
                try:
                    if until is not None:
                        half = len(data) // 2
                        connection.sendall(data[:half])
                        until.wait(_HALT_S)
                        data = data[half:]
                    connection.sendall(data)
                except OSError:
                    # The peer did not wait for it.
                    return


def taken(request: ProduceRequest, **more: Any) -> ProduceResponse:
    """Answer that everything was appended."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                partition_responses=[PartitionProduceResponse(index=each.index) for each in topic.partition_data],
            )
            for topic in request.topic_data
        ],
        **more,
    )


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def metadata(
    brokers: dict[int, ScriptedBroker], leaders: dict[tuple[str, int], int], *, epoch: int = 0, controller: int = -1
) -> MetadataResponse:
    """Return metadata in which these brokers lead these partitions; leader -1 means none."""
    topics: dict[str, MetadataResponseTopic] = {}
    for (name, partition), leader in leaders.items():
        topic = topics.setdefault(name, MetadataResponseTopic(name=name))
        topic.partitions.append(
            MetadataResponsePartition(
                error_code=5 if leader < 0 else 0,
                partition_index=partition,
                leader_id=leader,
                leader_epoch=epoch,
                replica_nodes=list(brokers),
                isr_nodes=list(brokers),
            )
        )
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node_id, host="127.0.0.1", port=broker.port)
            for node_id, broker in brokers.items()
        ],
        controller_id=controller,
        topics=list(topics.values()),
    )

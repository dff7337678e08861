"""Test a broker with listeners with and without TLS, in this process, by connections that behave in every way."""

from __future__ import annotations

import asyncio
import ssl
import struct
import time
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from broker.net.limits.told import LINES
from broker.net.tls import transport as transports
from broker.net.tls.listeners import TlsListeners
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkalog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from tests.broker.net.tls.listeners import port_of, serve, sessions
from tests.broker.replica.in_process import InProcess, Wire
from tests.support.secured.authority import Authority, authority, client_context

TLS_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(506)


async def connect(broker: InProcess, listener: str, context: ssl.SSLContext) -> Wire:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port_of(broker, listener), ssl=context, server_hostname="localhost"
    )
    broker._writers.append(writer)
    return Wire(reader, writer)


def tls_of(broker: InProcess) -> TlsListeners:
    assert broker.server.tls is not None
    return broker.server.tls


async def is_refused(broker: InProcess, listener: str, context: ssl.SSLContext) -> ssl.SSLError:
    """Return the error by which a client learns that it may not come in; with TLS 1.3 it reads it after its hello."""
    with pytest.raises(ssl.SSLError) as refused:
        await ask_for_versions(broker, listener, context)
    return refused.value


async def ask_for_versions(broker: InProcess, listener: str, context: ssl.SSLContext) -> None:
    wire = await connect(broker, listener, context)
    await wire.exchange(ApiVersionsRequest(), 0)


def test_who_clients_are(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        known = authority().sign("alice")
        users: list[str] = []
        for listener, context in (
            ("SSL", client_context()),
            ("MTLS", client_context(known)),
            ("ASKS", client_context(known)),
            ("ASKS", client_context()),
        ):
            wire = await connect(broker, listener, context)
            assert (await wire.exchange(MetadataRequest(topics=[]), 9)).brokers[0].port == port_of(broker, listener)
            users.append(str(sessions(broker, listener)[-1].principal))
        assert users == ["User:ANONYMOUS", "User:CN=alice", "User:ALICE", "User:ANONYMOUS"]
        assert tls_of(broker).by_name["ASKS"].counts.successful == 2
        stranger = client_context(Authority("stranger").sign("alice"))
        for listener, context in (("MTLS", client_context()), ("MTLS", stranger), ("ASKS", stranger)):
            assert "ALERT" in ((await is_refused(broker, listener, context)).reason or "")
        # No rule says who this is.
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await ask_for_versions(broker, "ASKS", client_context(authority().sign("ALICE")))
        await broker.until(lambda: len(sessions(broker, "ASKS")) == 2, "only those that were let in are left")
        assert tls_of(broker).by_name["ASKS"].counts.failures == 2

    serve(tmp_path, work)


def test_a_session_that_is_resumed_has_the_same_user(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        context = client_context(authority().sign("alice"))
        # asyncio does not resume sessions.
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context.minimum_version = context.maximum_version = version
            session, reused = None, []
            for _ in range(2):
                session, is_reused = await asyncio.to_thread(ask, port_of(broker, "MTLS"), context, session)
                reused.append(is_reused)
            assert reused == [False, True]

    def ask(port: int, context: ssl.SSLContext, session: Any) -> tuple[Any, bool]:
        import socket

        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain, server_hostname="localhost", session=session) as sock,
        ):
            sock.sendall(struct.pack(">ihhih", 14, 18, 0, 7, 4) + b"test")
            assert sock.recv(4)
            return sock.session, bool(sock.session_reused)

    async def with_users(broker: InProcess) -> None:
        seen: list[str] = []
        acceptor = broker.server.acceptor
        assert acceptor is not None
        closed = acceptor._closed

        def note(connection: Any) -> None:
            seen.append(str(connection.session.principal))
            closed(connection)

        acceptor._closed = note  # type: ignore[method-assign]
        await work(broker)
        await broker.until(lambda: len(seen) == 4, "all are closed")
        assert set(seen) == {"User:CN=alice"}

    serve(tmp_path, with_users)


def test_half_open_handshakes_harm_nobody_and_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transports, "HANDSHAKE_SECONDS", 2.0)

    async def work(broker: InProcess) -> None:
        begun = []
        for number in range(300):
            _, writer = await asyncio.open_connection("127.0.0.1", port_of(broker, "SSL"))
            writer.write(TLS_HELLO[: number % len(TLS_HELLO)])
            begun.append(writer)
        good = await connect(broker, "SSL", client_context())
        for _ in range(20):
            await good.exchange(ApiVersionsRequest(), 0)
        await broker.until(lambda: len(sessions(broker, "SSL")) == 1, "the others are closed")
        await good.exchange(ApiVersionsRequest(), 0)
        for writer in begun:
            writer.close()

    serve(tmp_path, work)


def test_crowds_of_half_open_handshakes_make_room_for_others(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        begun = [await asyncio.open_connection("127.0.0.1", port_of(broker, "SSL")) for _ in range(30)]
        await broker.until(lambda: len(sessions(broker, "SSL")) == 10, "the oldest ones are closed")
        good = [await connect(broker, "SSL", client_context()) for _ in range(15)]
        for wire in good:
            await wire.exchange(ApiVersionsRequest(), 0)
        assert len(sessions(broker, "SSL")) >= 15
        for _, writer in begun:
            writer.close()
        await broker.until(lambda: len(sessions(broker, "SSL")) == 15, "only the good ones are left")
        assert not tls_of(broker)._shaking

    serve(tmp_path, work, **{"kafkalog.max.unauthenticated.connections": "10"})


def test_clients_that_leave_amid_the_handshake(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        for size in (0, 1, 5, 100, len(TLS_HELLO)):
            _, writer = await asyncio.open_connection("127.0.0.1", port_of(broker, "SSL"))
            writer.write(TLS_HELLO[:size])
            await writer.drain()
            writer.transport.abort()
        await broker.until(lambda: not sessions(broker, "SSL"), "all are closed")
        await (await connect(broker, "SSL", client_context())).exchange(ApiVersionsRequest(), 0)

    serve(tmp_path, work)


def test_other_protocols_are_told_in_the_log_a_few_times_and_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(broker: InProcess, listener: str, data: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(broker, listener))
        writer.write(data)
        found = await reader.read()
        writer.close()
        return found

    async def work(broker: InProcess) -> None:
        kafka = struct.pack(">ihhih", 14, 18, 0, 7, 4) + b"test"
        for _ in range(2 * LINES):
            assert (await answer(broker, "SSL", kafka))[:1] == b"\x15"
            assert (await answer(broker, "PLAINTEXT", TLS_HELLO))[:1] == b"\x15"
            for listener in ("SSL", "PLAINTEXT"):
                assert (await answer(broker, listener, b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 400")
        with pytest.raises(ssl.SSLError, match=r"(?i)protocol version"):
            await connect(broker, "PLAINTEXT", client_context())
        lines = [each.message for each in caplog.records if "closing connection from 127.0.0.1" in each.message]
        assert len(lines) == 4 * LINES, lines
        assert sum("set security.protocol=SSL" in line for line in lines) == LINES
        assert sum("set security.protocol=PLAINTEXT in the client" in line for line in lines) == LINES

    serve(tmp_path, work)


def test_renewed_certificates_are_used_by_new_connections(tmp_path: Path) -> None:
    own = authority().sign("first", ("localhost",), path=tmp_path / "own.pem")

    async def work(broker: InProcess) -> None:
        before = await connect(broker, "SSL", client_context())
        authority().sign("second", ("localhost",), path=tmp_path / "new.pem").rename(own)
        await broker.server.runtime.workers.run(lambda: tls_of(broker).refresh(broker.server.broker.config))
        await before.exchange(ApiVersionsRequest(), 0)
        after = await connect(broker, "SSL", client_context())
        names = [
            wire._writer.get_extra_info("ssl_object").getpeercert()["subject"][0][0][1] for wire in (before, after)
        ]
        assert names == ["first", "second"]

    serve(tmp_path / "log", work, **{"ssl.keystore.location": str(own)})


KEYSTORE = "listener.name.ssl.ssl.keystore.location"


async def alter(
    broker: InProcess, key: str, value: str | None, *, name: str = "0", only: bool = False
) -> tuple[int, str]:
    """Set a key of a broker, or delete it with None; return the code of the error and its text."""
    config = AlterableConfig(name=key, config_operation=0 if value is not None else 1, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name=name, configs=[config])
    wire = await broker.connect("PLAINTEXT")
    found = await wire.exchange(IncrementalAlterConfigsRequest(resources=[resource], validate_only=only), 1)
    wire.close()
    return found.responses[0].error_code, found.responses[0].error_message or ""


async def shown(broker: InProcess) -> str:
    """Return the name in the certificate that a new client is shown."""
    wire = await connect(broker, "SSL", client_context())
    subject = wire._writer.get_extra_info("ssl_object").getpeercert()["subject"]
    wire.close()
    return str(subject[0][0][1])


def test_another_store_is_used_without_a_restart(tmp_path: Path) -> None:
    other = str(authority().sign("other", ("localhost",)))

    async def work(broker: InProcess) -> None:
        assert await alter(broker, KEYSTORE, other, only=True) == (0, "")
        assert await shown(broker) == "server"
        assert await alter(broker, KEYSTORE, other) == (0, "")
        assert await shown(broker) == "other"
        code, why = await alter(broker, KEYSTORE, "/no/such")
        assert (code, "cannot be read" in why, KEYSTORE in why) == (ErrorCode.INVALID_REQUEST, True, True)
        for key, name, expected in (
            ("ssl.keystore.location", "0", "Cannot update these configs dynamically"),
            ("listener.name.ssl.ssl.keystore.password", "0", "Cannot update these configs dynamically"),
            (KEYSTORE, "", "at default cluster level, broker id must be specified"),
        ):
            code, why = await alter(broker, key, other, name=name)
            assert code == ErrorCode.INVALID_REQUEST
            assert expected in why
        assert await shown(broker) == "other"
        wire = await broker.connect("PLAINTEXT")
        asked = DescribeConfigsResource(resource_type=4, resource_name="0", configuration_keys=[KEYSTORE])
        (entry,) = (await wire.exchange(DescribeConfigsRequest(resources=[asked]), 4)).results[0].configs
        assert (entry.value, entry.config_source, entry.read_only) == (other, 2, False)

    async def after(broker: InProcess) -> None:
        assert await shown(broker) == "other"
        assert await alter(broker, KEYSTORE, None) == (0, "")
        assert await shown(broker) == "server"

    serve(tmp_path, work)
    serve(tmp_path, after)


def test_metrics(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        assert broker.server.metrics is not None
        await ask_for_versions(broker, "SSL", client_context())
        await is_refused(broker, "LOGIN", ssl.create_default_context())
        url = f"http://127.0.0.1:{broker.server.metrics.port}/metrics"
        name = "kafka_server_socket_server_metrics"
        values: dict[str, str] = {}
        # The client knows that it has failed before the broker does.
        while float(values.get(f'{name}_failed_authentication_total{{listener="LOGIN"}}', 0)) != 1:
            text = await asyncio.to_thread(lambda: urlopen(url, timeout=30).read().decode())
            values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        assert float(values[f'{name}_successful_authentication_total{{listener="SSL"}}']) == 1
        assert float(values[f'{name}_failed_authentication_total{{listener="SSL"}}']) == 0
        left = float(values['kafkalog_tls_certificate_not_after_seconds{listener="SSL"}']) - time.time()
        assert timedelta(days=364) < timedelta(seconds=left) < timedelta(days=366)

    more = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,LOGIN://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,LOGIN:SASL_SSL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "kafkalog.metrics.listener": "127.0.0.1:0",
    }
    serve(tmp_path, work, **more)

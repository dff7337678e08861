"""A broker in this process; a test changes its roles and the speed of its disk."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

from broker.config.server import BrokerConfig
from broker.log.files.file_ops import FileOps
from broker.metadata.model import PartitionState
from broker.replica.partition import Partition
from broker.runtime import Runtime
from broker.server import Server
from kafkalog.protocol.codec import decode_response, encode_request
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

DEADLINE_S = 60.0


class SlowDisk(FileOps):
    """While `held` is set, an fsync of a file by a worker does not return."""

    __slots__ = ("_go_on", "held")

    def __init__(self) -> None:
        self.held = False
        self._go_on = threading.Condition()

    def fsync(self, fd: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            with self._go_on:
                self._go_on.wait_for(lambda: not self.held, DEADLINE_S)
        super().fsync(fd)

    def release(self) -> None:
        with self._go_on:
            self.held = False
            self._go_on.notify_all()


class Wire:
    """A connection of a client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, message: Any, version: int) -> None:
        self.send_bytes(encode_request(message, version, 1, "wire-test"))

    def send_bytes(self, content: bytes) -> None:
        self._writer.write(content)

    async def receive(self, message: Any, version: int) -> Any:
        """Return the response to `message`."""
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        return decode_response(type(message), version, await self._reader.readexactly(size))[1]

    async def is_closed(self) -> bool:
        """Tell whether the broker closes the connection without another byte."""
        return await self._reader.read(1) == b""

    def end_direction(self) -> None:
        """Send no more; the broker may still answer."""
        self._writer.write_eof()

    def close(self) -> None:
        self._writer.close()

    async def exchange(self, message: Any, version: int) -> Any:
        self.send(message, version)
        return await self.receive(message, version)


class InProcess:
    """A broker with id 0."""

    def __init__(self, server: Server, disk: SlowDisk) -> None:
        self.server = server
        self.disk = disk
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self, listener: str = "PLAINTEXT") -> Wire:
        (endpoint,) = (each for each in self.server.endpoints if each.name == listener)
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        self._writers.append(writer)
        return Wire(reader, writer)

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()
        self.disk.release()
        await self.server.stop()

    async def create_topic(self, name: str, **config: str) -> Partition:
        """Create a topic of one partition."""
        await self.ask_for_topic(name, **config)
        partition = self.server.replicas.get(name, 0)
        assert partition is not None
        return partition

    async def ask_for_topic(self, name: str, **config: str) -> None:
        """Create a topic, whether its partition is hosted or not."""
        configs = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()]
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=configs)
        wire = await self.connect()
        answer = await wire.exchange(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
        assert answer.topics[0].error_code == 0, answer.topics[0].error_message

    def assign(self, partition: Partition, **changes: Any) -> None:
        """Give the partition another state, as a controller does."""
        topic = self.server.store.state.topics[partition.topic]
        state = PartitionState((0,), (0,), partition.leader, partition.leader_epoch)
        replicas = self.server.replicas
        config = replicas.topic_config(topic.config)
        replicas.host_partition(topic.name, 0, topic.topic_id, replace(state, **changes), config, is_new=False)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                await asyncio.sleep(0.001)
        assert condition(), what


def with_broker(
    directory: Path,
    work: Callable[[InProcess], Coroutine[Any, Any, None]],
    settings: dict[str, str] | None = None,
    *,
    disk: SlowDisk | None = None,
) -> None:
    """Run `work` with a broker, which is stopped afterwards."""

    async def main() -> None:
        texts = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(directory), **(settings or {})}
        files = disk or SlowDisk()
        server = Server(BrokerConfig(texts), Runtime.of_process(4, files))
        await server.start()
        broker = InProcess(server, files)
        try:
            async with asyncio.timeout(DEADLINE_S):
                await work(broker)
        finally:
            await broker.close()

    asyncio.run(main())

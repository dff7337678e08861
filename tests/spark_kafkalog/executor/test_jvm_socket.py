"""Test that nothing waits on the connection between a Python worker and the JVM."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_kafkalog.compat.workers.starting import DAEMON, STREAM_PLANNER
from spark_kafkalog.executor import jvm_socket
from spark_kafkalog.source import KafkalogDataSource
from tests.spark_kafkalog.topics import Topics

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has TCP_QUICKACK")

# TCP_QUICKACK of a new connection is set; 0 stands for a connection on which both sides have sent for a while.
_PROCESS = """
import json, os, pickle, socket, sys
from importlib.machinery import ModuleSpec
if sys.argv[1]:
    sys.modules["__main__"].__spec__ = ModuleSpec(sys.argv[1], None)
from spark_kafkalog.sink.batch_writer import KafkalogWriter
from spark_kafkalog.compat.workers.starting import DAEMON, STREAM_PLANNER
from spark_kafkalog.executor import jvm_socket
from spark_kafkalog.source import KafkalogDataSource
from pyspark.sql.types import BinaryType, StructField, StructType

options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "topic", "topic": "topic"}
pickled = {
    "source": KafkalogDataSource(options),
    "writer": KafkalogWriter(options, StructType([StructField("value", BinaryType())]), False),
}
message = pickle.dumps(pickled[sys.argv[2]])

listening = socket.create_server(("127.0.0.1", 0))
kept = socket.create_connection(listening.getsockname())
# Neither these nor the listening socket, which has no peer, are obstacles.
others = [listening.accept(), socket.socketpair(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)]
kept.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
if sys.argv[3]:
    socket.setdefaulttimeout(float(sys.argv[3]))
pickle.loads(message)
print(json.dumps([
    bool(kept.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)),
    bool(kept.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)),
    os.get_blocking(kept.fileno()),
]))
"""


def options_after(main: str, pickled: str, default_timeout: str = "") -> list[bool]:
    """Return whether TCP_QUICKACK and TCP_NODELAY of a connection are set after unpickling, and whether it blocks."""
    done = subprocess.run(
        [sys.executable, "-c", _PROCESS, main, pickled, default_timeout],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[bool] = json.loads(done.stdout)
    return found


@LINUX
@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("main", "pickled"), [(DAEMON, "source"), (DAEMON, "writer"), (STREAM_PLANNER, "source")])
def test_workers_and_planners_acknowledge_and_send_at_once(main: str, pickled: str) -> None:
    assert options_after(main, pickled) == [True, True, True]


@LINUX
@pytest.mark.usefixtures("processes")
def test_other_processes_are_left_alone() -> None:
    assert options_after("", "source") == [False, False, True]


@LINUX
@pytest.mark.usefixtures("processes")
def test_a_default_timeout_does_not_make_connections_non_blocking() -> None:
    assert options_after(DAEMON, "source", "5") == [True, True, True]


@LINUX
@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)])
def test_connections_to_this_host_are_found(host: str, family: socket.AddressFamily) -> None:
    try:
        listening = socket.create_server((host, 0), family=family)
    except OSError as error:
        pytest.skip(f"there is no {host}: {error}")
    with listening, socket.create_connection(listening.getsockname()[:2]) as connection:
        assert jvm_socket.is_local(connection.fileno())
        assert not jvm_socket.is_local(listening.fileno()), "it has no peer"


@LINUX
def test_other_files_are_not_taken_for_connections() -> None:
    one, other = socket.socketpair()
    with one, other, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as elsewhere, open(os.devnull) as file:
        with suppress(OSError):
            # Without a route to it, the socket has no peer.
            elsewhere.connect(("192.0.2.1", 9))
        for each in (one, elsewhere, file):
            assert not jvm_socket.is_local(each.fileno())


class Looking(DataSource):
    """A source whose tasks tell the options of their connections; it carries the source under test, as a query does."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._source = KafkalogDataSource(options)

    @classmethod
    def name(cls) -> str:
        return "looking"

    def schema(self) -> str:
        return "nodelay INT"

    def reader(self, schema: StructType) -> DataSourceReader:
        return LookingReader(self._source)


class LookingReader(DataSourceReader):
    """The reader of `Looking`."""

    def __init__(self, source: KafkalogDataSource) -> None:
        self._source = source

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        found = []
        for descriptor in filter(jvm_socket.is_local, jvm_socket.descriptors()):
            with socket.socket(fileno=os.dup(descriptor)) as connection:
                found.append(int(bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))))
        return iter([pa.record_batch({"nodelay": pa.array(found, pa.int32())})])


@LINUX
def test_spark_s_own_connections_are_found(spark: SparkSession, topics: Topics) -> None:
    spark.dataSource.register(Looking)
    options = {"kafka.bootstrap.servers": topics.bootstrap, "subscribe": "nothing"}
    found = spark.read.format("looking").options(**options).load().collect()
    assert found, "a worker has no TCP connection to the JVM: with Unix sockets this test looks at nothing"
    assert {row.nodelay for row in found} == {1}

"""Tests of tasks whose delegation token has ended: what the error says, and that the readers and writers have it."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from kafkalog.client.admin.security.delegation_tokens import DelegationToken, Principal
from kafkalog.client.errors import AuthenticationError, ClientTimeoutError, ConnectionFailedError
from kafkalog.client.types import TopicPartition
from spark_kafkalog.delegation import tokens
from spark_kafkalog.delegation.ended import naming_ended_token
from spark_kafkalog.executor.range_reader import read_range
from spark_kafkalog.options.source_options import SourceOptions
from spark_kafkalog.sink.sink_columns import SinkColumns
from spark_kafkalog.sink.sink_options import SinkOptions
from spark_kafkalog.sink.task_writer import write_rows

OWNER = Principal("User", "alice")
OPTIONS = {
    "spark.kafka.clusters.a.auth.bootstrap.servers": "127.0.0.1:1",
    "spark.kafka.clusters.a.security.protocol": "SASL_PLAINTEXT",
    "kafka.bootstrap.servers": "127.0.0.1:1",
}
"""Of a query that takes a delegation token. Nobody listens at port 1, as if brokers closed each connection."""


def token_until(ends_at_ms: int) -> DelegationToken:
    return DelegationToken("the-id", b"the-hmac", OWNER, OWNER, 0, ends_at_ms, ends_at_ms)


@pytest.mark.parametrize("error", [AuthenticationError("no"), ConnectionFailedError("no"), ClientTimeoutError("no")])
def test_a_failure_after_the_end_names_it(error: Exception) -> None:
    with (
        pytest.raises(AuthenticationError, match=r"has ended at 2023-11-14T22:13:20\+00:00, .* other one: no\. Make"),
        naming_ended_token(1_700_000_000_000),
    ):
        raise error
    for ends_at in (None, int(time.time() * 1000) + 3_600_000):
        with pytest.raises(type(error), match=r"^no$"), naming_ended_token(ends_at):
            raise error


def test_other_failures_are_left_alone() -> None:
    with pytest.raises(ValueError, match=r"^no$"), naming_ended_token(1):
        raise ValueError("no")


def test_tasks_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "token_for", lambda _: token_until(1_700_000_000_000))
    given = {"subscribe": "t", "kafka.default.api.timeout.ms": "50", "kafka.request.timeout.ms": "50"}
    source = SourceOptions.parse(OPTIONS | given | {"kafkaConsumer.pollTimeoutMs": "50"})
    for options in (source.logged_in(), source.with_token(source.token())):
        with pytest.raises(AuthenticationError, match="the delegation token of this task has ended at 2023-11-14"):
            list(read_range(TopicPartition("t", 0), 0, 9, options, ("value",)))
    sink = SinkOptions.parse(OPTIONS | {"topic": "t", "kafka.max.block.ms": "50"}).logged_in()
    rows = pa.record_batch({"value": pa.array([b"v"])})
    with pytest.raises(AuthenticationError, match="the delegation token of this task has ended at 2023-11-14"):
        write_rows(iter([rows]), sink, SinkColumns(0))

"""Test `kafkalog configs` with brokers before Kafka 2.3, which replace all configurations of a resource."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkalog.client.admin import ConfigResource, ConfigSource
from kafkalog.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from kafkalog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from tests.support.command import call
from tests.support.scripted import ScriptedBroker, metadata


class OlderBroker:
    """A broker with a dynamic configuration, a secret one if wanted, and one from its file."""

    def __init__(self) -> None:
        self.secret = False
        self.asked: list[AlterConfigsRequest] = []
        self.broker = ScriptedBroker(
            {
                MetadataRequest: lambda request: metadata({0: self.broker}, {("t", 0): 0}),
                DescribeConfigsRequest: self._describe,
                AlterConfigsRequest: self._alter,
            }
        )

    def _describe(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        entries = [
            DescribeConfigsResourceResult(name="log.cleaner.threads", value="2", config_source=ConfigSource.BROKER),
            DescribeConfigsResourceResult(name="log.retention.ms", value="9", config_source=ConfigSource.BROKER),
            DescribeConfigsResourceResult(name="num.io.threads", value="8", config_source=ConfigSource.STATIC),
        ]
        if self.secret:
            entries.append(
                DescribeConfigsResourceResult(
                    name="ssl.key.password", value=None, config_source=ConfigSource.BROKER, is_sensitive=True
                )
            )
        results = [
            DescribeConfigsResult(resource_type=each.resource_type, resource_name=each.resource_name, configs=entries)
            for each in request.resources
            if each.resource_type in (ConfigResource.broker(0).type, ConfigResource.topic("t").type)
        ]
        return DescribeConfigsResponse(results=results)

    def _alter(self, request: AlterConfigsRequest) -> AlterConfigsResponse:
        self.asked.append(request)
        return AlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(resource_type=each.resource_type, resource_name=each.resource_name)
                for each in request.resources
            ]
        )


@pytest.fixture
def older() -> Iterator[OlderBroker]:
    made = OlderBroker()
    with made.broker:
        yield made


def test_the_other_dynamic_configurations_of_a_broker_are_kept(older: OlderBroker) -> None:
    words = ("configs", "alter", "--bootstrap-server", older.broker.address, "--broker", "0")
    call(*words, "--add-config", "background.threads=5", "--delete-config", "log.retention.ms")
    (request,) = older.asked
    (resource,) = request.resources
    assert {each.name: each.value for each in resource.configs} == {
        "log.cleaner.threads": "2",
        "background.threads": "5",
    }


def test_a_secret_must_be_given_again(older: OlderBroker) -> None:
    older.secret = True
    words = ("configs", "alter", "--bootstrap-server", older.broker.address, "--broker", "0", "--add-config")
    refused = call(*words, "background.threads=5", check=1)
    assert "set ssl.key.password in the same command" in refused.err
    assert not older.asked
    call(*words, "background.threads=5,ssl.key.password=new")
    assert len(older.asked[0].resources[0].configs) == 4


def test_configurations_of_a_topic_are_not_replaced(older: OlderBroker) -> None:
    words = ("configs", "alter", "--bootstrap-server", older.broker.address, "--topic", "t")
    refused = call(*words, "--add-config", "retention.ms=5", check=1)
    assert "does not support INCREMENTAL_ALTER_CONFIGS; brokers of Apache Kafka have it since 2.3" in refused.err
    assert not older.asked


def test_a_type_that_the_broker_does_not_know(older: OlderBroker) -> None:
    words = ("configs", "describe", "--bootstrap-server", older.broker.address)
    said = call(*words, "--broker-logger", "0", check=1).err
    assert (
        said
        == "kafkalog: the broker's answer leaves out broker logger 0, which brokers of Apache Kafka know since 2.4\n"
    )

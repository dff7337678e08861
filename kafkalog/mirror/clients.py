"""Make the clients of a mirror from properties that are meant for several of them.

The properties of a cluster are those of its consumer, its producers and its administrators. Each client would complain
of what only another one heeds. So these do not complain, and `unknown_to_all` finds what none of them heeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafkalog.client.admin import Admin
from kafkalog.client.config import ClientConfig
from kafkalog.client.consumer import Consumer
from kafkalog.client.consumer.config import ConsumerConfig
from kafkalog.client.producer import Producer
from kafkalog.client.producer.config import ProducerConfig


def admin(properties: Mapping[str, str]) -> Admin:
    """Return an administrator."""
    return Admin(ClientConfig.from_dict(properties))


def consumer(properties: Mapping[str, Any]) -> Consumer:
    """Return a consumer."""
    return Consumer(ConsumerConfig.from_dict(properties))


def producer(properties: Mapping[str, str]) -> Producer:
    """Return a producer; it has transactions if the properties have a `transactional.id`.

    A batch that the target calls corrupt is not sent again: it counts as refused, and must not keep others waiting.
    """
    return Producer(ProducerConfig.from_dict(properties), repeats_corrupt=False)


def plain_producer(properties: Mapping[str, str]) -> Producer:
    """Return a producer without transactions, whatever the properties say."""
    return producer({key: text for key, text in properties.items() if key != "transactional.id"})


def unknown_to_all(clusters: Iterable[Mapping[str, str]]) -> set[str]:
    """Return the properties of clusters that have no effect on any of their clients.

    Raises:
        ConfigError: A property cannot have its value.
    """
    found: set[str] = set()
    for properties in clusters:
        configs = (each.from_dict(properties) for each in (ClientConfig, ConsumerConfig, ProducerConfig))
        found |= set.intersection(*(set(each.unknown) for each in configs))
    return found

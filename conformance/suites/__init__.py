"""The suites, one module a client."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.model import Suite
from conformance.suites import aiokafka, confluent, franz_go, java, kafka_python, kafkajs, kcat, sarama

SUITES: Sequence[Suite] = (
    kcat.SUITE,
    confluent.SUITE,
    kafka_python.SUITE,
    aiokafka.SUITE,
    java.SUITE,
    franz_go.SUITE,
    sarama.SUITE,
    kafkajs.SUITE,
)

"""A sink that writes exactly once, for the tests of its parts."""

from __future__ import annotations

import pytest

from tests.spark_kafkalog.sink.transactional.committed import Sink
from tests.spark_kafkalog.topics import Topics


@pytest.fixture
def sink(topics: Topics) -> Sink:
    return Sink(topics, topics.create("once", 3))

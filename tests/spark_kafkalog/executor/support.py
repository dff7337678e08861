"""The options of a source that reads one topic."""

from __future__ import annotations

from typing import Any

from spark_kafkalog.options.source_options import SourceOptions
from tests.spark_kafkalog.topics import Topics


def options_for(topics: Topics, topic: str, **options: Any) -> SourceOptions:
    given = {"kafka.bootstrap.servers": topics.bootstrap, "subscribe": topic}
    return SourceOptions.parse(given | {name: str(value) for name, value in options.items()})

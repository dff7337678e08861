"""Consumer interceptors (KIP-42): objects that see records before the application, and offsets once committed."""

from __future__ import annotations

import logging

from kafkalog.client.consumer.config import ConsumerConfig
from kafkalog.client.types import ConsumerRecord, OffsetAndMetadata, TopicPartition

logger = logging.getLogger(__name__)


class ConsumerInterceptors:
    """Call the interceptors of `interceptor.classes`, in their order.

    An exception that one raises is logged and otherwise ignored, as in Apache Kafka's consumer.
    """

    def __init__(self, config: ConsumerConfig) -> None:
        self._consume = [each.on_consume for each in config.interceptors if hasattr(each, "on_consume")]
        self._commit = [each.on_commit for each in config.interceptors if hasattr(each, "on_commit")]

    @property
    def want_commits(self) -> bool:
        """Return whether some interceptor has `on_commit`."""
        return bool(self._commit)

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Pass records through all interceptors, and return what the last one returns."""
        for consume in self._consume:
            try:
                records = consume(records)
            except Exception:
                logger.exception("an interceptor's on_consume failed")
        return records

    def on_commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Tell all interceptors which offsets were committed."""
        for commit in self._commit:
            try:
                commit(offsets)
            except Exception:
                logger.exception("an interceptor's on_commit failed")

"""What is done to records before the application gets them: deserializers and interceptors."""

from __future__ import annotations

import logging
from typing import Any

from kafkalog.client.consumer.config import ConsumerConfig
from kafkalog.client.types import ConsumerRecord, OffsetAndMetadata, TopicPartition

_log = logging.getLogger(__name__)


class Delivery:
    """Deserializes and intercepts. An interceptor's exceptions are logged, as Kafka's consumer does."""

    def __init__(self, config: ConsumerConfig) -> None:
        self._key, self._value = config.key_deserializer, config.value_deserializer
        self._consume = [each.on_consume for each in config.interceptors if hasattr(each, "on_consume")]
        self._commit = [each.on_commit for each in config.interceptors if hasattr(each, "on_commit")]

    @property
    def hears_commits(self) -> bool:
        return bool(self._commit)

    def deserialize(self, records: list[ConsumerRecord]) -> tuple[list[ConsumerRecord], Exception | None]:
        """The records before the first that a deserializer does not take, and what it raises of that one."""
        if self._key is None and self._value is None:
            return records, None
        found: list[ConsumerRecord] = []
        for record in records:
            try:
                found.append(self._deserialized(record))
            except Exception as error:
                return found, error
        return found, None

    def intercept(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """The records as interceptors leave them."""
        for consume in self._consume:
            try:
                records = consume(records)
            except Exception:
                _log.exception("an interceptor's on_consume failed")
        return records

    def _deserialized(self, record: ConsumerRecord) -> ConsumerRecord:
        changed: dict[str, Any] = {}
        try:
            if self._key is not None and record.key is not None:
                changed["key"] = self._key(record.key)
            if self._value is not None and record.value is not None:
                changed["value"] = self._value(record.value)
        except Exception as error:
            error.add_note(f"deserializing {record.topic}-{record.partition} at offset {record.offset}")
            raise
        return record._replace(**changed)

    def committed(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Tell interceptors of a commit."""
        for commit in self._commit:
            try:
                commit(offsets)
            except Exception:
                _log.exception("an interceptor's on_commit failed")

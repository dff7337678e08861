"""Deserializers: functions that turn the bytes of keys and values into the objects that the application gets."""

from __future__ import annotations

from typing import Any

from kafkalog.client.consumer.config import ConsumerConfig
from kafkalog.client.types import ConsumerRecord


class Deserializers:
    """Apply `key.deserializer` and `value.deserializer` to records. A null key or value stays None."""

    def __init__(self, config: ConsumerConfig) -> None:
        self._key, self._value = config.key_deserializer, config.value_deserializer

    def deserialize(self, records: list[ConsumerRecord]) -> tuple[list[ConsumerRecord], Exception | None]:
        """Deserialize records up to the first that a deserializer refuses.

        Returns:
            The records before that one, and the exception that the deserializer raised, None if none did.
        """
        if self._key is None and self._value is None:
            return records, None
        found: list[ConsumerRecord] = []
        for record in records:
            try:
                found.append(self._deserialized(record))
            except Exception as error:
                return found, error
        return found, None

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

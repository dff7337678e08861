"""The options that say how values are decoded: `valueFormat` and those that depend on it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import StructType

from spark_kafkalog.columns import COLUMNS
from spark_kafkalog.options.parsing import Given, OptionsError, not_negative, positive
from spark_kafkalog.values.arrow_types import nullable
from spark_kafkalog.values.ddl import DdlError, parse_ddl
from spark_kafkalog.values.option_names import NAMES, REGISTRY
from spark_kafkalog.values.registry.schema_registry import RegistryConfig
from spark_kafkalog.values.spark_times import zone_of

FORMATS = ("json", "avro")
FRAMINGS = ("confluent", "none")
DEFAULT_MISSING_IDS = 10_000
CORRUPT_COLUMN = "_corrupt_record"
"""As `spark.sql.columnNameOfCorruptRecord`."""
_BELONG = {"json": frozenset({"avroframing", *(name.lower() for name in REGISTRY)}), "avro": frozenset({"timezone"})}
"""Options that have no meaning with a format, by format."""
_RAW_PASSWORD = re.compile(r"https?://[^/?#@:\[]*:(?!\d*[/?#])[^/?#@]*[/?#].*@")
"""An address whose password has a character that would have to be written otherwise in a URL."""


@dataclass(frozen=True)
class ValueOptions:
    """Options of decoding values, checked. `framed`: Avro in Confluent's wire format."""

    format: str
    json_schema: StructType | None = None
    avro_schema: str | None = None
    registry: RegistryConfig | None = None
    framed: bool = False
    most_missing_ids: int = DEFAULT_MISSING_IDS
    """The most different schema ids of one task that the registry may not know."""
    corrupt_column: str = CORRUPT_COLUMN
    time_zone: str = "UTC"
    """The zone of timestamps in JSON that name none."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ValueOptions | None:
        """Check and convert options; None if values stay binary.

        Raises:
            OptionsError: An option is wrong. The text names it.
        """
        given = Given(options)
        named = [name for name in NAMES if name in given]
        if "valueFormat" not in given:
            if named:
                raise OptionsError(f"{named[0]} needs valueFormat, one of {', '.join(FORMATS)}")
            return None
        form = given.text("valueFormat").strip().lower()
        if form not in FORMATS:
            raise OptionsError(f"valueFormat: expected one of {', '.join(FORMATS)}, got '{given.text('valueFormat')}'")
        if idle := [name for name in named if name.lower() in _BELONG[form]]:
            raise OptionsError(f"{idle[0]} has no meaning with valueFormat={form}")
        corrupt = given.get("columnNameOfCorruptRecord", lambda _, text: text.strip(), CORRUPT_COLUMN)
        if not corrupt:
            raise OptionsError("columnNameOfCorruptRecord: a name is needed")
        if corrupt in COLUMNS:
            raise OptionsError(f"columnNameOfCorruptRecord: the source has a column '{corrupt}' already")
        schema = given.text("valueSchema").strip() if "valueSchema" in given else None
        if form == "json":
            return cls(
                form,
                json_schema=None if schema is None else _json_schema(schema),
                corrupt_column=corrupt,
                time_zone=given.get("timeZone", _time_zone, "UTC"),
            )
        registry = _registry(given)
        if schema is None and registry is None:
            raise OptionsError("valueFormat=avro needs valueSchema (an Avro schema) or schemaRegistry.url")
        return cls(
            form,
            avro_schema=schema,
            registry=registry,
            framed=_framing(given, registry is not None) == "confluent",
            most_missing_ids=given.get("schemaRegistry.max.missing.ids", positive, DEFAULT_MISSING_IDS),
            corrupt_column=corrupt,
        )


def _json_schema(text: str) -> StructType:
    """Parse a schema in DDL, or in the JSON form of a StructType."""
    try:
        found = StructType.fromJson(json.loads(text)) if text.startswith("{") else parse_ddl(text)
    except DdlError as error:
        raise OptionsError(f"valueSchema: {error}") from None
    except Exception as error:
        raise OptionsError(f"valueSchema: no schema in Spark's JSON form: {type(error).__name__}: {error}") from None
    kind = nullable(found)
    assert isinstance(kind, StructType)
    return kind


def _time_zone(name: str, text: str) -> str:
    zone = text.strip()
    try:
        zone_of(zone)
    except ValueError as error:
        raise OptionsError(f"{name}: {error}") from None
    return zone


def _framing(given: Given, has_registry: bool) -> str:
    default = "confluent" if has_registry else "none"
    framing = given.get("avroFraming", lambda _, text: text.strip().lower(), default)
    if framing not in FRAMINGS:
        raise OptionsError(f"avroFraming: expected one of {', '.join(FRAMINGS)}, got '{framing}'")
    if framing == "none" and has_registry and "valueSchema" in given:
        raise OptionsError(
            "schemaRegistry.url has no meaning with avroFraming=none and a valueSchema: values without a frame do not "
            "name their schema"
        )
    return framing


def _registry(given: Given) -> RegistryConfig | None:
    if "schemaRegistry.url" not in given:
        others = [name for name in REGISTRY if name in given]
        if others:
            raise OptionsError(f"{others[0]} needs schemaRegistry.url")
        return None
    urls = tuple(url for url in map(str.strip, given.text("schemaRegistry.url").split(",")) if url)
    if not urls or not all(url.startswith(("http://", "https://")) for url in urls):
        # Not the text itself: addresses may have passwords.
        raise OptionsError("schemaRegistry.url: expected http:// or https:// addresses, separated by commas")
    if any(map(_RAW_PASSWORD.match, urls)):
        raise OptionsError(
            "schemaRegistry.url: the password in an address has a /, a # or a ?, which end the place of a password; "
            "give user and password as schemaRegistry.basic.auth.user.info"
        )
    user_info = given.get("schemaRegistry.basic.auth.user.info", lambda _, text: text, None)
    if user_info is not None and ":" not in user_info:
        raise OptionsError("schemaRegistry.basic.auth.user.info: expected user:password")
    return RegistryConfig(
        urls,
        user_info,
        given.get("schemaRegistry.timeout.ms", positive, 10_000) / 1000,
        given.get("schemaRegistry.retries", not_negative, 3),
        given.get("schemaRegistry.ssl.ca.location", lambda _, text: text, None),
    )

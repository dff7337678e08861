"""Determines the types of a query's values, on the driver."""

from __future__ import annotations

from collections.abc import Mapping

from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.options.subscription import Assign, Strategy, Subscribe
from spark_kafkalog.values.registry.schema_registry import RegisteredSchema, SchemaRegistry
from spark_kafkalog.values.typed import Typed, checked_json
from spark_kafkalog.values.value_options import ValueOptions


def typed_values(options: Mapping[str, str], strategy: Strategy) -> Typed | None:
    """Return how values are decoded, by a query's options; None if they stay binary.

    Raises:
        OptionsError, SchemaRegistryError: `plan` raises them.
    """
    parsed = ValueOptions.parse(options)
    return None if parsed is None else plan(parsed, _topics(strategy))


def _topics(strategy: Strategy) -> tuple[str, ...] | None:
    if isinstance(strategy, Subscribe):
        return strategy.topics
    return tuple(sorted({tp.topic for tp in strategy.partitions})) if isinstance(strategy, Assign) else None


def plan(options: ValueOptions, topics: tuple[str, ...] | None) -> Typed:
    """Return the types of the values, from the schema registry if no schema is given.

    `topics` are those that the query names, None if it names none.

    Raises:
        OptionsError: A schema cannot be used, or fastavro is missing.
        SchemaRegistryError: The registry fails.
    """
    if options.format == "json":
        schema = options.json_schema
        return Typed(options, None if schema is None else checked_json(schema, "valueSchema"))
    from spark_kafkalog.values.avro.avro_schema import AvroSchemaError
    from spark_kafkalog.values.avro.from_avro import spark_type

    reader, where = _reader_schema(options, topics)
    try:
        return Typed(options, spark_type(reader), reader)
    except ImportError:
        raise OptionsError("valueFormat=avro needs fastavro: pip install 'kafkalog[avro]'") from None
    except AvroSchemaError as error:
        raise OptionsError(f"{where}: {error}") from None


def _reader_schema(options: ValueOptions, topics: tuple[str, ...] | None) -> tuple[RegisteredSchema, str]:
    if options.avro_schema is not None:
        return RegisteredSchema(options.avro_schema, "AVRO"), "valueSchema"
    assert options.registry is not None
    if not topics:
        raise OptionsError(
            "valueFormat=avro without valueSchema takes the latest schema of a topic's values from the registry, so "
            "that topics must be named by subscribe or assign; or set valueSchema"
        )
    registry = SchemaRegistry(options.registry)
    found: dict[str, RegisteredSchema] = {}
    for topic in topics:
        schema = registry.latest(f"{topic}-value")
        if schema is None:
            raise OptionsError(f"schema registry: there is no subject {topic}-value; set valueSchema")
        found[topic] = schema
    if len(set(found.values())) > 1:
        raise OptionsError(
            f"{', '.join(found)}: their values have different schemas; set valueSchema, or read them one by one"
        )
    return next(iter(found.values())), f"schema of {topics[0]}-value"

"""Values as typed columns: `valueFormat` = `json` or `avro`.

- `value_options`    the options, checked; `option_names` their names, quick to import
- `ddl`              parser of Spark SQL's schema texts
- `arrow_types`      Spark's types as Arrow's
- `value_types`      on the driver: the types of a query's values
- `typed`            a query's schema with typed values, and the decoding of its record batches
- `typed_readers`    readers that decode what other readers return
- `from_json`        JSON documents to structs
- `spark_times`      dates and timestamps in text, as Spark reads them
- `avro`             Avro records to structs
- `registry`         schemas of a schema registry
"""

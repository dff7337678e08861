"""Values as typed columns: ``valueFormat`` = ``json`` or ``avro``.

- `options`    what a user may set; `names` the options' names
- `ddl`        schemas in the words of Spark SQL; `types` Spark's types as Arrow's
- `from_json`  JSON documents to structs; `from_avro` Avro records
- `registry`   a schema registry's REST API; `errors` what goes wrong with it
- `plan`       on the driver: which types the values of a query have
- `typed`      the seam: the schema of a query, and what becomes of a batch of records
- `readers`    readers that decode what other readers return
"""

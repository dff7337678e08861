"""Values as Avro records.

- `avro_schema`  Avro schemas, loaded for reading
- `from_avro`    Avro records to structs
"""

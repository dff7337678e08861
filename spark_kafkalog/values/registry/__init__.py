"""Schemas of a schema registry.

- `schema_registry`  client of its REST API
- `registry_error`   the error that it raises, quick to import
- `known_schemas`    schemas that a process knows by their ids
"""

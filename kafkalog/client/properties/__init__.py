"""The common base of all configurations of the clients: Kafka's client properties as fields of dataclasses.

- `options`    declares properties as fields, and parses their texts
- `providers`  resolves references to files and variables in properties
- `foreign`    properties of other clients that have no effect here, and why
"""

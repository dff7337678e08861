"""Kafka's wire protocol: tables of the messages, and the functions that they compile to.

``messages.<api>`` has one table an API, in the notation of ``schema``. ``codec`` turns messages into frames and back,
by functions that ``encoder`` and ``decoder`` generate for a message and version at its first use. ``wire`` is the
client's side of a connection: frames, correlation ids, versions, SASL. ``api_keys``, ``error_codes`` and ``errors``
name what the numbers mean. ``embedded`` has the formats inside fields of bytes. Nothing here reads a socket or knows a
broker.

- ``generator``   source text of generated functions
- ``messages``    one module for each API
- ``primitives``  primitive types of the wire
"""

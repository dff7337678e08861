"""Kafka's wire protocol: tables of the messages, and the functions generated from them.

Nothing here reads a socket or depends on the broker.

- `messages/`            the tables: one module for each API, in the notation of `schema`
- `schema`               the notation of the tables
- `codec`                encodes messages into frames and decodes them
- `encoder`              generates the function that encodes one message in one version, at its first use
- `decoder`              generates the function that decodes one message in one version, at its first use
- `generator`            source text of generated functions; used by both
- `primitives`           primitive types, and what generated functions call
- `api_keys`             the APIs with their versions and header forms
- `error_codes`          the error codes with their meanings
- `code`                 the base of codes, which are numbers that stand for values
- `acls`                 codes of access control lists
- `scram`                credentials of SCRAM users, and their stored form
- `errors`               one exception class for each error code
- `wire/`                the client's side of a connection: frames, correlation ids, versions, SASL
- `embedded/`            formats inside fields of bytes
- `coordinator_records`  what coordinators store of groups, offsets and transactions
"""

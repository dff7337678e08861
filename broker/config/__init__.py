"""Configuration: each key is declared once; parsing, validation and documentation use the declaration.

The files in `conf/` are Java properties, which `kafkalog.java_properties` reads.

- `definition`        a key: name, type, default, validator, documentation, whether it may change at run time
- `server`            the keys of a broker
- `coordinators`      the broker keys of the group and transaction coordinators
- `cluster`           the broker keys of a member of a cluster
- `zookeeper`         those of its session with ZooKeeper
- `topic`             the keys of a topic, each with the broker key of its default
- `stored_topic`      a topic's stored configuration, which may have names and values that are not known here
- `group`             the keys of one group of the consumer protocol
- `security`          the keys of the authorizer, and of listeners that encrypt or authenticate
- `listeners`         the `listeners` family of keys: `NAME://host:port` lists
- `message_format`    the values of `message.format.version`
- `protocol_version`  the values of `inter.broker.protocol.version`
- `document`          prints the reference page docs/reference/configuration.md
"""

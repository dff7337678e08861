"""Configuration: each key declared once, and everything else (parsing, validation, documentation) derived.

The files in ``conf/`` are Java properties, which `kafkalog.java_properties` reads.

- ``definition``   what a key is: name, type, default, validator, documentation, whether it may change at run time
- ``listeners``    the ``listeners`` family: ``NAME://host:port`` lists
- ``topic``        keys of a topic, each with the broker key that holds its default
- ``server``       keys of a broker
- ``document``     the reference page generated from the declarations
- ``coordinators``    keys of the group and transaction coordinators
- ``group``           keys of one group of the consumer protocol
- ``message_format``  values of `message.format.version`
"""

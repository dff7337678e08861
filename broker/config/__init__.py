"""Configuration: each key declared once, and everything else (parsing, validation, documentation) derived.

- ``definition``   what a key is: name, type, default, validator, documentation, whether it may change at run time
- ``properties``   the Java-properties format of the files in ``conf/``
- ``listeners``    the ``listeners`` family: ``NAME://host:port`` lists
- ``topic``        keys of a topic, each with the broker key that holds its default
- ``server``       keys of a broker
- ``document``     the reference page generated from the declarations
- ``coordinators``    keys of the group and transaction coordinators
- ``group``           keys of one group of the consumer protocol
- ``message_format``  values of `message.format.version`
"""

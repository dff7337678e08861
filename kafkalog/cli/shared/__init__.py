"""Parts that the commands of all packages share, those of the broker and of Spark included.

- `actions`         commands that have actions, and the parsers of both
- `child`           processes that end with their command
- `client_options`  options that become client properties, and errors as messages
- `client_log`      the client's log lines as messages of a command
- `deserializers`   bytes as text, by the classes of Kafka
- `formatter`       records as lines of text
- `ids`             ids of partitions and brokers, as users and files give them
- `interruptible`   signals that end a command
"""

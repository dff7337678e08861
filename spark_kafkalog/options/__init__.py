"""The options of the source: names, defaults, checks and messages of Spark's own Kafka source.

- `source_options`  all options of one source, checked
- `subscription`    which partitions to read: `assign`, `subscribe`, `subscribePattern`
- `limits`          where to start and end: `startingOffsets`, `endingTimestamp` and the others
- `parsing`         parsers of single values: numbers, sizes, durations, JSON
- `java_patterns`   Java's regular expressions in options
"""

"""Mirror as MirrorMaker 1 did: consume records, and produce them to the topics of the same names.

A record's key decides about its partition, and so may be in another one than in the source. Offsets are committed in
the source after the records were delivered: a crash may bring some of them twice, and loses none. With
`abort.on.send.failure=false` a record that the target does not take is left out. Source: `kafka.tools.MirrorMaker` of
Apache Kafka 3.9; for consumers with `zookeeper.connect`, that of 1.1.

- `running`         runs the streams of all sources in threads
- `streams`         streams whose groups are coordinated by brokers
- `connected`       streams whose groups are in ZooKeeper, as those of consumers of Kafka 0.8
- `mirroring`       what the streams have in common
- `senders`         the producers of the target
- `old_properties`  the properties of the producer of Kafka 0.8
- `defaults`        with these nothing is lost; a file may replace them
- `passing`         leaves out the serializers that a file names
- `deliveries`      notes what the target has not taken
"""

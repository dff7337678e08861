"""Copy records so that they keep their offsets: the place of `copying.task` with `--offsets keep`.

Nothing is stored but the records and the ids of their topics: the position in the source is the end of the target's
log. No record can come twice or out of place, because the target appends a batch only where its log ends just there.
There are two ways to ask for that:

- *stated*: a kafkalog target takes batches that state their offsets, in topics with `kafkalog.mirror.source`, if its
  log ends where the mirror says (`expected_end_offset` of Produce). Offsets that the source lacks are lacking in the
  target, too. Other brokers would ignore the field and append: so a leader that does not announce the feature
  `kafkalog.stated.offsets` on the connection is sent nothing.
- *numbered*: any other Kafka gives each record the next offset. The sequence numbers of one producer id, which all
  processes of the mirror share, are the offsets of the source. The broker refuses a batch that does not follow the last
  one, and appends none twice. So only topics without gaps can be kept, from offset 0 on.

The modules:

- `task`         a task: it takes batches, and sends them in a thread
- `places`       makes the places of the target's partitions
- `sender`       sends batches, and finds out what the target has where an answer is missing
- `topics`       makes sure that topics of the target take batches with their offsets
- `unreadable`   leaves out topics whose configuration in the target cannot be read, until it can
- `shared_id`    the producer id that all processes share, for numbered batches
- `kept_topics`  stores of which topic of the source the records are
- `agreement`    checks that source and target have the same records, before a process goes on
- `errors`       why offsets cannot be kept
"""

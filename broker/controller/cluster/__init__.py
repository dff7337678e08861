"""The controller of a cluster over ZooKeeper, as Apache Kafka's in ZooKeeper mode (`KafkaController`).

One broker of the cluster holds the office. It elects the leaders of partitions, tells all brokers, and carries out what
administrators ask for. Decisions are generators that do no input or output (`model.effects`); the rest carries out what
they ask for.

Decisions:

- `model/`      values: what the controller knows, and the forms of its decisions
- `machine/`    partitions and replicas from one phase to another
- `events/`     what is decided when something happens

Around them:

- `controller`  a broker's controller: elections, events, requests
- `office`      what the controller knows while it holds the office; carries out the effects of decisions
- `queue`       the queue of events
- `candidacy`   the election of the controller
- `kraft`       recognizes a cluster that is migrated to KRaft
- `succession`  the end of a controller whose process has died
- `stalls`      what reassignments wait for that do not go on
- `session`     reads and writes of ZooKeeper while in office
- `watching`    watches become events
- `channels`    connections to the brokers
- `log_ends`    asks brokers where their logs end
"""

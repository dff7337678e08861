"""ZooKeeper, as clients of Kafka 0.7 to 0.8 and their tools use it.

What is read and written is decided by generators that do no input or output (`steps`). A session carries them out.

- `steps`     reads, writes and their errors; steps that several users share
- `nodes`     paths of groups, topics and brokers, and what their nodes hold
- `security`  the properties that secure a session: TLS, a login, access lists
- `session`   a session with ZooKeeper over kazoo
- `brokers`   finds the brokers of a cluster
- `groups`    what ZooKeeper holds of groups, and files of their offsets
- `deletion`  deletes groups without members, or a topic of them

Pure:

- `migration` plans the move of offsets between ZooKeeper and Kafka
"""

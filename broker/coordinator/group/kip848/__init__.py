"""Groups of the consumer protocol of KIP-848: the coordinator assigns partitions and leads each member towards them.

`consumer_groups` handles the requests, `consumer_membership` is such a group in the coordinator. All other modules
except `topics` are pure: values in, values out, no clock and no I/O. The records of its log determine a group
(`group`). A request makes new records, a response and timers (`requests`); the membership has the records appended and
lets the group replay them.

- `consumer_groups`      the requests of the protocol: heartbeats, descriptions, changes of protocol
- `consumer_membership`  a group in the coordinator: its timers, stored records and answers
- `group`                the state of a group
- `model`                members, their states, and sets of partitions
- `requests`             the effects of each request
- `advance`              a member's change and its consequences
- `reconcile`            one step of a member towards its target assignment
- `member_changes`       which members may join, and what is left when a member is gone
- `conversion`           groups that change their protocol while they have members
- `assignors`            the coordinator's assignors
- `formats`              records of the log, and the bytes that classic members send
- `topics`               the cluster's topics, and which of them a regular expression matches
- `config`               settings of consumer groups
- `context`              input and result of a request
"""

"""A member of a group under the consumer protocol (KIP-848), whose coordinator assigns the partitions.

- `member`       the member's state: heartbeats that are due, what to take and to give up; nothing here sends or waits
- `heartbeat`    the thread that sends its heartbeats
- `coordinator`  the application's side: gives partitions up and takes them, while the application polls
"""

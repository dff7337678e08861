"""Message formats v0 and v1 in a log: nothing here runs for a batch of v2 that goes into a topic of v2.

- ``message_sets``  what a leader checks of a produced set, and how it becomes what the topic stores
- ``appender``      the append of what that gives
"""

"""Message formats v0 and v1 in a log. Nothing here runs for a v2 batch that goes into a topic of v2.

- `message_sets`          what a leader checks of a produced message set, and how it becomes what the topic stores
- `message_set_appender`  appends the result
"""

"""The commands of ``kafkalog groups``: parse, call ``kafkalog.client.admin``, print.

- ``common``          what these commands share
- ``delete``          `delete`
- ``delete_offsets``  `delete-offsets`
- ``describe``        `describe`
- ``listing``         `list`
- ``plan_files``      plans of reset-offsets as CSV
- ``remove_members``  `remove-members`
- ``reset_offsets``   `reset-offsets`
- ``times``           points in time and durations (ISO 8601)
"""

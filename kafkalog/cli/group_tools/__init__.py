"""The commands of ``kafkalog groups``: parse, call ``client.group_admin``, print."""

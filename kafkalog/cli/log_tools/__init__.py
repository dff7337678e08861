"""The commands of ``kafkalog log``: parse, call ``broker.log.tools``, print."""

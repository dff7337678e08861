"""The commands of ``kafkalog log``: parse, call ``broker.log.tools``, print.

- ``common``      what these commands share
- ``dump``        `dump`
- ``import_0_7``  `import-0.7`
- ``repair``      `repair`
- ``stats``       `stats`
- ``tail``        `tail`
- ``verify``      `verify`
"""

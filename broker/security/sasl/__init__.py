"""SASL: clients prove who they are.

- `mechanisms`     PLAIN, SCRAM, the server's side
- `authenticator`  the authentication of one connection: ApiVersions, SaslHandshake, the messages of a mechanism
- `offers`         makes the mechanisms of a listener from its configuration
- `jaas`           reads `sasl.jaas.config`
- `broker_login`   how this broker logs in to the others of its cluster
"""

"""SASL: clients prove who they are.

- `mechanisms`     PLAIN, SCRAM, OAUTHBEARER and GSSAPI, the server's side
- `kerberos`       tickets, and the users that they stand for
- `oauth`          tokens, and the keys with which they are checked
- `authenticator`  the authentication of one connection: ApiVersions, SaslHandshake, the messages of a mechanism
- `offers`         makes the mechanisms of a listener from its configuration
- `jaas`           reads `sasl.jaas.config`
- `broker_login`   how this broker logs in to the others of its cluster
"""

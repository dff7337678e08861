"""The SASL mechanisms, the server's side. `kafkalog.protocol.wire` has the clients' side.

- `interface`  what a mechanism does, and how it fails
- `plain`      PLAIN: names and passwords
- `gssapi`     GSSAPI: tickets of Kerberos
- `oauthbearer`  OAUTHBEARER: tokens of an authorization server
- `scram`      SCRAM-SHA-256 and SCRAM-SHA-512: proofs that a client knows a password
"""

"""The security of a client's connections, from the client's properties. SASL's messages are in `protocol.wire.sasl`.

- `tls`          TLS contexts; their properties are `tls_options`
- `stores`       certificates and private keys in files of Java, PKCS #12 and PEM; `jks` reads Java's own format,
                 `pkcs12_keys` counts keys, and `pem` finds the blocks in PEM text
- `ciphers`      versions of TLS and cipher suites
- `jaas`         the text of `sasl.jaas.config`
- `jaas_options` options of login modules that have no effect, and why
- `mechanisms`   SASL mechanisms by name
- `passwords`    the mechanisms that need a password: PLAIN and SCRAM
- `oauth`        the mechanism OAUTHBEARER, and where its tokens come from
- `msk`          the mechanism AWS_MSK_IAM
- `kerberos`     the mechanism GSSAPI
"""

"""The mechanism GSSAPI: Kerberos, by the system's library and the package `gssapi` (`kafkalog[gssapi]`).

- `factory`   makes the mechanisms of a client's connections
- `options`   the properties, and which ticket or keytab they name
- `library`   everything that the package `gssapi` does
- `keytab`    the principals of a keytab
- `failures`  what to do about the library's errors
"""

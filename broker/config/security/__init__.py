"""The keys of the authorizer, and of listeners that encrypt or authenticate.

- `authorizer`       the keys of the authorizer
- `oauth`            the keys of OAUTHBEARER
- `tokens`           the keys of delegation tokens
- `sasl`             the keys of SASL
- `logins`           the keys of this broker's logins to others, by GSSAPI and OAUTHBEARER
- `listener_config`  what is in force for one listener: its own values before the broker's
- `tls`              the keys of TLS
"""

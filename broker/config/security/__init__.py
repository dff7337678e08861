"""The keys of listeners that encrypt or authenticate.

- `oauth`            the keys of OAUTHBEARER
- `tokens`           the keys of delegation tokens
- `sasl`             the keys of SASL
- `listener_config`  what is in force for one listener: its own values before the broker's
- `tls`              the keys of TLS
"""

"""The commands that administer who may log in, and who may do what.

- `acls`               `kafkalog acls`: access control lists
- `delegation_tokens`  `kafkalog delegation-tokens`
- `scram_users`        logins of users, a part of `kafkalog configs`
"""

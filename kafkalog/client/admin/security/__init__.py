"""Access to a cluster: permissions, and credentials for a time.

- `acls`               access control lists
- `delegation_tokens`  credentials for a time (KIP-48)
- `scram_users`        SCRAM credentials of users (KIP-554)
"""

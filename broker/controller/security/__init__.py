"""Services that change who may log in, and who may do what.

- `acls`               creates, deletes and describes access control entries
- `delegation_tokens`  makes, renews and ends delegation tokens
- `scram_users`        alters, describes and finds SCRAM credentials
- `listener_stores`    what belongs to one listener in a broker's configuration
"""

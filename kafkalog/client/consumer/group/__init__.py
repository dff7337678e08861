"""Membership in a consumer group: what the classic protocol and the consumer protocol (KIP-848) have in common.

- `abstract_coordinator` takes and gives up partitions while the application polls
- `commits`              commits offsets, one commit after the other
- `group_requests`       a member's requests to the group's coordinator
- `generation`           who a member is, and what it does about an error
"""

"""Requests of the controller to this broker: LeaderAndIsr, StopReplica and UpdateMetadata.

- `control`  carries out what the controller sends
- `orders`   LeaderAndIsr and StopReplica requests as values, and their answers; pure
- `update`   what an UpdateMetadata request changes in the state of the cluster; pure
"""

"""Partitions and replicas from one phase to another, and what consists of such steps. Pure.

- `partitions`    phases of partitions, and elections of their leaders
- `log_ends`      which replica has the longest log, for unclean elections
- `replicas`      phases of replicas
- `restarts`      replicas that were started anew while there was no controller
- `deletion`      deletes topics
- `reassignment`  moves partitions to other brokers
"""

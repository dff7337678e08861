"""The decisions of the controller, by event. Pure.

- `failover`      a broker has become the controller
- `brokers`       brokers come, go, start anew, lose log directories
- `topics`        topics are created, get partitions, are to be deleted
- `isr`           leaders change ISRs
- `elections`     somebody asks for elections, or leaders are balanced
- `shutdown`      a broker asks for a controlled shutdown
- `producer_ids`  a broker asks for producer ids
- `answers`       which of these follows from what a broker answers
- `watched`       which of these follows from what a watch tells
"""

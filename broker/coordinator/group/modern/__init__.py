"""Groups of the consumer protocol of KIP-848: the coordinator assigns partitions and leads each member towards them.

Everything here is pure: values in, values out, no clock and no I/O. A group (`group`) is what the records of its log
(`log_records`) say. A request makes new records, a response and timers (`heartbeat`, `membership`, `classic_members`);
the service appends the records and lets the group replay them.
"""

"""What the benchmarks share: brokers under one interface, their CPU time, and tables."""

"""Idempotent and transactional producers.

- `producer_ids`       InitProducerId
- `transactions`       AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, WriteTxnMarkers
- `transaction_admin`  DescribeProducers, DescribeTransactions, ListTransactions
"""

"""Tests of the transaction coordinator: state machine, formats, crashes."""

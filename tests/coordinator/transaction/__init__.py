"""The transaction coordinator: state machine, formats, crashes."""

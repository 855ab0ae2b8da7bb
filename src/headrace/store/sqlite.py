"""The embedded home: one SQLite file, one writer, the ledger guard inside each commit."""

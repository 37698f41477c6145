"""The ledger: the only truth about a job."""

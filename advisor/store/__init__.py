"""The ledger on SQLAlchemy: jobs, trials, replays with their raw traces, and the advice."""

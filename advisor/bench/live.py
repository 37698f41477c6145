"""LiveBench: a setting becomes a real server, and is measured by replaying load against it."""

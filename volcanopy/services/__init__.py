"""The long-running processes: wiring only."""

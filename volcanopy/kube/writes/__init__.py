"""Writes that wait: events, queues of writes, and slots for the writes in flight."""

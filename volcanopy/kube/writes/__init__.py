"""Writes that wait for their turn: events, and queues of writes."""

"""The end of a session: pod group and queue statuses, and explanations of waiting jobs."""

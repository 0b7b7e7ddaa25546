"""``volcanopy ui``: a web page for queues, jobs, nodes and decisions."""

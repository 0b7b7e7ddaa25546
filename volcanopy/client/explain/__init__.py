"""``volcanopy explain``: why a job is pending, and the state of a queue.

``cluster_reads`` reads the cluster, ``job`` and ``queue`` make a report of what was read, ``text`` lays it out.
"""

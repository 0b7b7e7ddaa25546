"""``volcanopy explain``: what is known about a job or a queue in, one sentence and what it rests on out.

``reading`` asks the cluster, ``job`` and ``queue`` judge, ``text`` writes it down; only the first touches the world.
"""

"""What the ``volcanopy job`` commands do, a module for each subject; their options stand in ``commands/job.py``."""

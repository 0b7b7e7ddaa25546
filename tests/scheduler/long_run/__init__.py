"""Long runs: hundreds of cycles with arrivals and ends of jobs, in virtual minutes.

Measured are the shares of queues, utilisation, waits and evictions. ``python -m tests.scheduler.long_run`` prints the table.
"""

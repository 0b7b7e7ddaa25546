"""Faults in a running cluster while gangs run, and a judge of the outcome: ``python -m chaos --help``. For developers; not installed."""

"""Simulation of months of a cluster: the scheduler, the job controller and admission under virtual time."""

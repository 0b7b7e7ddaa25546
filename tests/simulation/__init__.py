"""Simulation of the whole live system on one event loop under virtual time: real services, real API server, faults."""

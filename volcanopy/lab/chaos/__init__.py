"""Faults injected into a running test cluster while gangs run, and a judge who watches what happens to them."""

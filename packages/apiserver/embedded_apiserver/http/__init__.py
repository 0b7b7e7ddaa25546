"""Requests that are not about stored objects: discovery, identity, access reviews."""

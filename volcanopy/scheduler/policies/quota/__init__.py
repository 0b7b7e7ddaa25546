"""Policies that divide the cluster between queues."""

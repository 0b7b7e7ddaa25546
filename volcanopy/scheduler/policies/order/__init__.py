"""Policies that order queues, jobs and tasks."""

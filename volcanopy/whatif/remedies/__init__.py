"""Kinds of changes that may let a job start, each as parts of a strength that a search can narrow."""

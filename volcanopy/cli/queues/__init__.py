"""Queues on the command line: columns, descriptions, the tree, changes and Commands."""

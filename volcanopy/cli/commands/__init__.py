"""The groups of commands that speak to a cluster: each module defines the options and imports what it does late."""

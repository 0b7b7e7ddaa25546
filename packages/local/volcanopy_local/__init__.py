"""The embedded cluster: an API server, nodes and all services on one machine."""

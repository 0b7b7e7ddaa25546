"""HTTP connections, identity, discovery, error responses."""

"""An API server on loopback, good enough that kubectl cannot tell."""

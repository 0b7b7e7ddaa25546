"""Containers of process nodes in a container engine: podman, or what serves the API of Docker."""

"""The verbs: get, list, watch, create, update, patch, delete, and subresources."""

"""The verbs (get, list, watch, create, update, patch, delete), subresources, and what follows from deletions and definitions."""

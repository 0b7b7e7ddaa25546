"""Read models and rules of built-in Kubernetes kinds other than those in :mod:`volcanopy.api.core`."""

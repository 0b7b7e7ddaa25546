"""Jobs: their manifests, phases, pods and logs, and waiting for them."""

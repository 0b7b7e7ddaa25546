"""Writers of plans: pods, claims, locks of nodes, and statuses."""

"""Controllers of Deployments, ReplicaSets, StatefulSets and Jobs on an embedded cluster."""

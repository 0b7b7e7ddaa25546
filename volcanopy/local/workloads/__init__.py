"""Controllers of Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs on an embedded cluster."""

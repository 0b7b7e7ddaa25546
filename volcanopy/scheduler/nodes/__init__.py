"""What Kubernetes says about pods and nodes, as columns over the nodes: shared by the plugins that filter and score."""

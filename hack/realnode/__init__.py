"""A Kubernetes cluster with real kubelets, containerd and runc on one Linux machine, without an image registry.

`layout` describes a cluster as data, `programs` and `images` build what it needs, `control_plane` and `node` are the first
processes of the cluster's namespaces and of each node, `cluster` starts and ends them, and `__main__` is the command line.
"""

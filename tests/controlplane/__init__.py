"""A real kube-apiserver and etcd on loopback: what the embedded API server is held against.

`plane.ControlPlane` starts and stops it, `fixtures.real_control_plane` gives one to the tests of a session, and
`python -m tests.controlplane up` keeps one running for a person. The programs come from `python -m hack.controlplane`.
"""

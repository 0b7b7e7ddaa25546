"""Nodes of runtime `process`: the containers of their pods run as processes of this machine."""

"""The node agent: it publishes the CPU topology and the load of the node that it runs on."""

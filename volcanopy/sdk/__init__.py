"""The Python SDK: jobs as objects, synchronous and asynchronous."""

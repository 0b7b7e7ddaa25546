"""The parts of the oracle in ``check``: each looks at one kind of promise, on the frozen tables only."""

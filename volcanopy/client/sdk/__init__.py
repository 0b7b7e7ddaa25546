"""The Python SDK: jobs as objects of a program; ``volcanopy`` exports its names."""

"""The name by which Snakemake finds the executor ``volcanopy``."""

from volcanopy_backends.snakemake import Executor, ExecutorSettings, common_settings

__all__ = ["Executor", "ExecutorSettings", "common_settings"]

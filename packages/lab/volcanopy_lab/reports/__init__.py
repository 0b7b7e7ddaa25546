"""``volcanopy simulate``: inputs from files, runs in parallel, tables, files and the report."""

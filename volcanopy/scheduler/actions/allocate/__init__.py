"""allocate and backfill: placing pending tasks on free resources."""

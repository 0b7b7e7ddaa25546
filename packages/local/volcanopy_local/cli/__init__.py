"""``volcanopy local``: an embedded cluster on this machine, and the progress of its jobs."""

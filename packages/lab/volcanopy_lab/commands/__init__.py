"""``volcanopy simulate``, registered in :mod:`volcanopy.cli.main`."""

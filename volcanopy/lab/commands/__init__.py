"""``volcanopy simulate`` and ``volcanopy chaos``, registered in :mod:`volcanopy.cli.main`."""

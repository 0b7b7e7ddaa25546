"""``python -m volcanopy``: the same as the command ``volcanopy``."""

from volcanopy.cli.main import main

main()

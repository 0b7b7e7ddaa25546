"""The command ``volcanopy``, also as ``python -m volcanopy``; Ctrl-C ends it silently, also while it is loading."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from volcanopy.cli.main import main as run  # noqa: PLC0415 - it takes most of a second

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()

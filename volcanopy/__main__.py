"""The command ``volcanopy``, also as ``python -m volcanopy``; Ctrl-C ends it silently, also while it is loading."""

import gc
import sys


def main() -> None:
    """Run the command line."""
    gc.set_threshold(50_000, 20, 50)  # what is imported stays: looking for garbage in it is a tenth of a start
    try:
        from volcanopy.cli.main import main as run  # noqa: PLC0415 - it takes most of a second

        run()
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        gc.freeze()  # the interpreter looks for garbage before it ends, which would be a sixth of `explain job`


if __name__ == "__main__":
    main()

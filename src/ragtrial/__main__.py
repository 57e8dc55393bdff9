"""The entry point: runs the command line and turns every outcome into an exit code."""

from __future__ import annotations

import sys


def main() -> None:
    """Run ``ragtrial`` with the arguments of the process, and exit."""
    try:
        from ragtrial.cli.outcome import leave, run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before the command line itself could catch it
        sys.exit(130)
    leave(code)


if __name__ == "__main__":
    main()

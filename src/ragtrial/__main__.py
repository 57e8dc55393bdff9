"""The entry point: runs the command line and turns every outcome into an exit code."""

from __future__ import annotations

import gc
import os
import sys

_ENVIRONMENT = {
    "OPENBLAS_THREAD_TIMEOUT": "16",  # idle threads sleep at once: they spin for a tenth of a second otherwise
    "PYDANTIC_DISABLE_PLUGINS": "true",  # it would read the metadata of every package that is installed
}
"""Variables that libraries read when they are loaded; values that the user has set stay."""

_NEW_OBJECTS = 300_000
"""How many are made before Python looks for cycles among them: at its default, 700, a tenth of a short run is that.
More than are made by imports: these stay."""


def main() -> None:
    """Run ``ragtrial`` with the arguments of the process, and exit."""
    try:
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:  # closed (``>&-``): its number would be that of the next file that is opened
                setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - until the end
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
        from ragtrial.cli.outcome import leave, run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before the command line itself could catch it
        sys.exit(130)
    leave(code)


if __name__ == "__main__":
    main()

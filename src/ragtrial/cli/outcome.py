"""From whatever a command comes to, to messages and an exit code; a crash never looks like anything else."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from ragtrial import __version__
from ragtrial.cli.group import group
from ragtrial.errors import Fault, RagtrialError

_INTERRUPTED = 130
_CRASHED = 3
_KEPT = "interrupted. Everything that was finished is kept; run the same command again to go on."


def run(arguments: Sequence[str]) -> int:
    """Run a command line; its exit code. Errors go to stderr, and with ``--json`` as one document to stdout, too."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = group.main(args=list(arguments), prog_name="ragtrial", standalone_mode=False)
        sys.stdout.flush()
        return int(code or 0)
    except BrokenPipeError:
        # The reader has what it wanted (`ragtrial show | head`); nothing more may be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KeyboardInterrupt, click.Abort):
        return _failed(_INTERRUPTED, [Fault(message=_KEPT)], arguments, "")
    except click.UsageError as error:
        hint = f"Try '{error.ctx.command_path} --help'." if error.ctx else ""
        return _failed(error.exit_code, [Fault(message=f"{error.format_message()} {hint}".strip())], arguments)
    except click.ClickException as error:
        return _failed(2, [Fault(message=error.format_message())], arguments)
    except RagtrialError as error:
        return _failed(error.exit_code, error.faults, arguments)
    except Exception as error:  # noqa: BLE001 - the last resort: whatever it is, it is told without a traceback
        return _failed(_CRASHED, [Fault(message=_crash(error))], arguments)


def _terminate(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _failed(code: int, faults: Sequence[Fault], arguments: Sequence[str], label: str = "error: ") -> int:
    for fault in faults:
        print(f"{label}{fault}", file=sys.stderr)
    if "--json" in arguments:
        print(json.dumps({"exit_code": code, "errors": [asdict(fault) for fault in faults]}, ensure_ascii=False))
    return code


def _crash(error: Exception) -> str:
    """Keep the traceback in a file; the sentence that says so."""
    with tempfile.NamedTemporaryFile("w", prefix="ragtrial-crash-", suffix=".log", delete=False) as log:
        log.write(f"ragtrial {__version__}, Python {sys.version}\n{' '.join(sys.argv)}\n\n")
        traceback.print_exception(error, file=log)
    summary = traceback.format_exception_only(error)[-1].strip()
    return (
        f"ragtrial failed in a way it should not ({summary}). Everything that was finished is kept. "
        f"The details are in {Path(log.name)}; please report them."
    )

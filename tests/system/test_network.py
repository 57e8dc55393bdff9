"""No command attempts a network connection, though nothing in its environment forbids one."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from commands import hooked

WATCH = """
import json
import os
import sys

EVENTS = {"socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname",
          "socket.gethostbyaddr", "socket.getnameinfo"}


def seen(event, arguments):
    if event in EVENTS and not (event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], str)):
        with open(os.environ["WATCH"], "a", encoding="utf-8") as log:
            log.write(json.dumps([event, *map(str, arguments)]) + "\\n")


sys.addaudithook(seen)
"""
"""Notes every use of the network by Python code; an address that is a text is that of a socket in the file system."""

CONNECT = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
    made.connect(("192.0.2.1", 9))
"""
"""Names an address to the kernel, which sends nothing: a datagram socket connects without a packet."""

COMMANDS = (("init", "."), ("validate", "experiment.yaml"), ("run", "experiment.yaml"), ("show", "latest"),
            ("show", "latest", "--query", "q1", "--setting", "dense", "--prompt"),
            ("search", "experiment.yaml", "money back"), ("list", "runs"), ("list", "metrics"), ("schema", "config"),
            ("cache", "list", "experiment.yaml"), ("cache", "verify", "experiment.yaml"),
            ("cache", "prune", "experiment.yaml", "--unused"))  # fmt: skip
ALL = f"""
import gc
from ragtrial.cli.outcome import leave, run
for arguments in {COMMANDS}:
    if code := run(arguments):
        leave(code)
    gc.collect()  # as a process that ends, lets go of its locks
leave(0)
"""
"""One process runs every command, so that the libraries are loaded, and ended, once."""

PROTECTION = ("HF_", "HUGGINGFACE", "TRANSFORMERS_", "SENTENCE_TRANSFORMERS", "ANONYMIZED", "DO_NOT_TRACK", "CHROMA")


def strace_works() -> bool:
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-f", "true"], capture_output=True, check=False).returncode == 0


def tracing(log: Path) -> list[str]:
    return ["strace", "-f", "--seccomp-bpf", "-qq", "-o", str(log), "-e", "trace=connect,sendto,sendmsg,sendmmsg"]


def connections(log: Path) -> list[str]:
    """The traced calls that name an address of the internet."""
    return [line for line in log.read_text(errors="replace").splitlines() if "AF_INET" in line]


def test_no_command_connects_to_anything_or_looks_up_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the real model and Chroma, as a newcomer has them. Where strace works, compiled code is watched, too."""
    for name in [name for name in os.environ if name.startswith(PROTECTION)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))  # no model is cached there, nothing is set up
    watch, trace = tmp_path / "watch.jsonl", tmp_path / "strace"
    environment = {**os.environ, **hooked(tmp_path / "hook", WATCH), "WATCH": str(watch)}
    under = tracing(trace) if strace_works() else []
    folder = tmp_path / "experiment"
    folder.mkdir()
    ended = subprocess.run(
        [*under, sys.executable, "-c", ALL], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert not watch.exists(), watch.read_text()
    assert not under or connections(trace) == []


def test_a_connection_by_python_or_any_code_would_be_seen(tmp_path: Path) -> None:
    environment = {**os.environ, **hooked(tmp_path / "hook", WATCH), "WATCH": str(tmp_path / "watch.jsonl")}
    subprocess.run([sys.executable, "-c", CONNECT], check=True, env=environment)
    (seen,) = map(json.loads, (tmp_path / "watch.jsonl").read_text().splitlines())
    assert (seen[0], seen[-1]) == ("socket.connect", "('192.0.2.1', 9)")
    if not strace_works():
        pytest.skip("strace is not installed, or may not trace")
    log = tmp_path / "log"
    subprocess.run([*tracing(log), sys.executable, "-c", CONNECT], check=True)
    (seen,) = connections(log)
    assert 'inet_addr("192.0.2.1")' in seen

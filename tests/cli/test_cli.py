"""The command line: the answer on stdout, everything else on stderr, and an exit code that means one thing."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from commands import LONGEST
from ragtrial.cli.group import COMMANDS
from ragtrial.cli.terminal import Terminal
from ragtrial.records import ReportWarning
from ragtrial.report.model import load_report
from small_experiment import CONFIG, HASHING, LABELS, Capture, ragtrial, small_experiment, succeeded


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))  # where the details of a crash go


@pytest.fixture
def config(tmp_path: Path) -> Path:
    small_experiment(tmp_path)
    return Path("experiment.yaml")


def test_no_command_at_all_is_a_misuse_and_shows_the_help_on_stderr(capsys: Capture) -> None:
    made = ragtrial(capsys)
    assert (made.code, made.out) == (2, "")
    assert made.err.startswith("Usage: ragtrial ")


def test_a_run_writes_a_report_and_says_where(config: Path, capsys: Capture) -> None:
    made = succeeded(capsys, "run", config)
    header, _, headline, _, _, columns, row, *_, last = made.out.splitlines()
    assert headline == "dense, ndcg@3 1.000: it finds an answer in the first 3 for 2 of 2 questions"
    assert header.startswith("small: 1 setting on 3 documents, 2 questions, run ")
    assert columns.split()[:2] == ["setting", "ndcg@3"]
    assert row.split() == ["dense", *["1.000"] * 5, "0.333"]
    report = Path(last.split()[1])
    assert last == f"Report   {report}   (ragtrial report --open)"
    assert load_report(report).run_id == header.rpartition(" ")[2] == report.name
    assert (report / "config.yaml").read_text(encoding="utf-8") == CONFIG


def test_a_second_run_does_nothing_twice_and_gives_the_same_numbers(config: Path, capsys: Capture) -> None:
    first, second = ragtrial(capsys, "run", config), ragtrial(capsys, "run", config)
    assert second.code == 0
    assert re.fullmatch(r"Nothing was computed: all \d+ stages are cached, and only scored again\.\n", second.err)
    assert "Nothing was computed" not in first.err
    assert second.out.splitlines()[1:-2] == first.out.splitlines()[1:-2]


def test_strict_makes_a_warning_an_error_and_quiet_hides_it(config: Path, capsys: Capture, tmp_path: Path) -> None:
    labels = {"queries": [*LABELS["queries"], {"id": "q3", "text": "nothing", "relevant_docs": []}]}
    small_experiment(tmp_path, labels=labels)
    for command in ("run", "validate"):
        made = ragtrial(capsys, command, config, "--strict", "-q")
        assert (made.code, made.out) == (2, "")
        assert "1 of 3 questions has no relevant document yet" in made.err
    assert not (tmp_path / "results").exists()
    quiet = ragtrial(capsys, "run", config, "-q")
    assert (quiet.code, quiet.err) == (0, "")
    assert "Report   " in quiet.out
    loud = ragtrial(capsys, "run", config)
    assert loud.err.endswith(
        "\n1 warning:\n  1 of 3 questions has no relevant document yet (searched, not scored): label one, or add "
        "the tag `unanswerable` (in a table: `no` in a column `answerable`).\n"
    )


def test_a_limit_runs_only_the_first_queries_and_says_so(config: Path, capsys: Capture) -> None:
    override = ("--set", "retrievers.dense.top_k=1", "--set", "experiment=other")
    made = succeeded(capsys, "run", config, "--limit", "1", *override, "--json")
    assert made.json["primary_metric"] == "ndcg@1"
    assert made.json["warnings"] == [{"code": "limit", "message": "only the first 1 of 2 queries ran."}]
    report = load_report(Path(made.json["report"]).parent)
    assert ([query.id for query in report.queries], report.config["experiment"]) == (["q1"], "other")


@pytest.mark.parametrize(
    "crash",
    ["import sys\n\n\ndef embed(texts):\n    sys.exit(1)\n",
     "def embed(texts):\n    raise SystemExit\n",
     "def embed(texts):\n    raise SystemExit(texts[0])\n"],
    ids=["exit 1", "exit without a code", "exit with a text"],
)  # fmt: skip
def test_a_function_that_ends_the_program_fails(crash: str, tmp_path: Path, own_cache: Path, capsys: Capture) -> None:
    made = ragtrial(capsys, "run", small_experiment(tmp_path, functions=crash), "-q")
    assert made.code == 3
    assert made.err.startswith("error: interrupted: something that was called, such as a function of the config, ended")
    assert "Traceback" not in made.out + made.err
    assert not list(own_cache.glob("ragtrial-crash-*.log"))


def test_a_run_without_latency_measures_none(tmp_path: Path, capsys: Capture) -> None:
    config = small_experiment(tmp_path, config=CONFIG.replace("latency: false", "latency: true"))
    for options, measured in (["--no-latency"], False), ([], True):
        made = ragtrial(capsys, "run", config, "--json", *options)
        (setting,) = load_report(Path(made.json["report"]).parent).settings
        assert (setting.latency is not None) == measured


def test_a_crash_without_a_file_is_still_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def full(*_given: Any, **_named: Any) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", full)
    functions = "def embed(texts):\n    raise GeneratorExit(7)\n"
    made = ragtrial(capsys, "run", small_experiment(tmp_path, functions=functions))
    assert made.code == 3
    assert "ragtrial failed in a way it should not (GeneratorExit: 7)." in made.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["rum", "x.yaml"], f"there is no command 'rum'. Did you mean 'run'? Commands: {', '.join(COMMANDS)}. "
      "Try 'ragtrial --help'."),
     (["zebra"], f"there is no command 'zebra'. Commands: {', '.join(COMMANDS)}. Try 'ragtrial --help'."),
     (["run", "a.yaml", "b.yaml"], "Got unexpected extra argument (b.yaml). Try 'ragtrial run --help'."),
     (["run", "a.yaml", "--limit", "0"], "Invalid value for '--limit': 0 is not in the range x>=1. "
      "Try 'ragtrial run --help'."),
     (["search", "a.yaml"], "Missing argument 'TEXT': a question after a.yaml. Try 'ragtrial search --help'."),
     (["schema", "zebra"], "Invalid value for '[WHAT]': 'zebra' is not one of 'config', 'labels', 'report'. "
      "Try 'ragtrial schema --help'."),
     (["show", "--prompt"], "--prompt needs --query ID. Try 'ragtrial show --help'."),
     (["run", "a.yaml", "--set"], "Option '--set' requires an argument.")],
)  # fmt: skip
def test_a_misuse_is_two_and_says_what_is_right(arguments: list[str], told: str, capsys: Capture) -> None:
    made = ragtrial(capsys, *arguments)
    assert (made.code, made.out, made.err) == (2, "", f"error: {told}\n")


@pytest.mark.parametrize(
    "arguments",
    [["run"], ["zebra"], ["run", "nowhere.yaml"], ["run", "--zebra"], ["show", "nowhere"], ["list", "zebra"],
     ["validate", "nowhere.yaml"], ["search", "nowhere.yaml", "x"], ["schema", "zebra"]],
)  # fmt: skip
def test_an_error_is_one_json_document_and_the_same_is_told_on_stderr(arguments: list[str], capsys: Capture) -> None:
    made = ragtrial(capsys, *arguments, "--json")
    assert made.json["exit_code"] == made.code == 2
    (error,) = made.json["errors"]
    assert set(error) == {"file", "line", "column", "message"}
    assert made.err == f"error: {error['file']}{': ' if error['file'] else ''}{error['message']}\n"


def test_what_a_function_prints_and_logs_is_not_part_of_the_answer(tmp_path: Path) -> None:
    noisy = "import logging\nimport warnings\n\nlogging.basicConfig()\nlogging.warning('logged')\nprint('imported')\n"
    printing = HASHING.replace("    vectors =", "    print('called')\n    vectors =")
    small_experiment(tmp_path, functions=noisy + "warnings.warn('warned')\n" + printing)
    command = [sys.executable, "-m", "ragtrial", "run", "experiment.yaml", "--json"]
    made = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LONGEST)
    assert json.loads(made.stdout)["exit_code"] == 0
    assert all(text in made.stderr for text in ("logged", "warned", "imported\n", "called\n"))


def in_shell(line: str) -> subprocess.CompletedProcess[str]:
    """What comes of a line of bash, in which COMMAND is ours; it has no traceback."""
    variables = {**os.environ, "COMMAND": f"{sys.executable} -m ragtrial"}
    made = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, env=variables)
    assert "Traceback" not in made.stdout + made.stderr
    assert "Exception ignored" not in made.stderr
    return made


@pytest.mark.parametrize(
    ("command", "code"),
    [("show --json | true", 0), ("show | head -1", 0), ("--help | true", 0),
     ("run experiment.yaml 2>&1 | true", 0), ("run nowhere.yaml --json 2>&1 | true", 2)],
)  # fmt: skip
def test_a_reader_that_goes_away_changes_no_exit_code(command: str, code: int, config: Path, capsys: Capture) -> None:
    succeeded(capsys, "run", config)
    made = in_shell(f"$COMMAND {command}; echo ${{PIPESTATUS[@]}}")
    assert int(made.stdout.split()[-2]) == code


@pytest.mark.parametrize(
    ("line", "code"),
    [("list metrics >&-", 0), ("list metrics <&- >&- 2>&-", 0), ("run nothing.yaml 2>&-", 2),
     ("run nothing.yaml <&-", 2)],
)  # fmt: skip
def test_a_closed_stream_changes_no_exit_code(line: str, code: int) -> None:
    assert in_shell(f"$COMMAND {line}").returncode == code


@pytest.mark.parametrize("line", ["run /tmp/x.yaml", "show", "init x", "cache list"])
def test_a_current_folder_that_is_gone_is_an_error_that_says_so(line: str) -> None:
    made = in_shell(f"mkdir gone && cd gone && rmdir ../gone && $COMMAND {line}")
    assert (made.returncode, "the current folder no longer exists" in made.stderr) == (2, True), made.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="file names need not be text on Linux alone")
def test_a_name_that_is_no_text_and_a_terminal_that_knows_no_umlauts_are_no_crash() -> None:
    command: list[str | bytes] = [sys.executable, "-m", "ragtrial", "run", b"M\xc3\xbcnchen-\xff.yaml", "--json"]
    variables = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"}
    made = subprocess.run(command, capture_output=True, check=False, env=variables)
    assert made.returncode == 2
    assert json.loads(made.stdout)["errors"][0]["message"] == "there is no such file."
    assert made.stderr.endswith(b": there is no such file.\n")


def test_a_warning_of_each_kind_is_shown_first_what_may_change_a_verdict(capsys: Capture) -> None:
    terminal = Terminal(as_json=False, quiet=False, verbose=False, no_color=True)
    short = [ReportWarning("short", f"setting {number}: \x1b[2Jshort.") for number in range(3)]
    terminal.warn([*short, ReportWarning.of_verdict("ties", "equal scores.")])
    assert capsys.readouterr().err.strip().splitlines() == [
        "4 warnings, 2 shown:",
        "  equal scores.",
        "  setting 0: \ufffd[2Jshort. (2 more short: --json shows all)",
    ]

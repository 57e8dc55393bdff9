"""The GitHub action, run as a runner does: gates decide the job, and a pull request has one comment."""

import os
import re
import runpy
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown_it import MarkdownIt

from github_jobs import ROOT, Comments, Job, comments_api, pull_request
from small_experiment import CONFIG, HASHING, small_experiment

HOSTILE = "![i](https://e.x/i) <img src=e> <!-- @octocat #12 GH-3 www.e.x [l](javascript:a) `$(touch no)`"
BROKEN = '  broken: {kind: dense, top_k: 10, embedder: {kind: custom, function: "hashing:fail"}}\nlatency:'
SHOUTING = f"""import os
{HASHING}

print("::error::of a function")
print("::stop-commands::mine")
print("token:", "secret-token" in os.environ.values())


def fail(texts):
    raise RuntimeError({HOSTILE!r})
"""
GIVEN = {"config": "experiment.yaml", "working-directory": "trial", "install": "no", "python": ""}
MARKER = "<!-- ragtrial: trial/experiment.yaml -->\n"
PUBLISH: dict[str, Any] = runpy.run_path(str(ROOT / "action" / "publish.py"))


@pytest.fixture
def comments() -> Iterator[Comments]:
    with comments_api() as api:
        yield api


def links(markdown: str) -> list[str]:
    """What readers would load, follow or be called by: elements of HTML, mentions, numbers of issues, addresses."""
    html = MarkdownIt("gfm-like", {"linkify": False}).render(markdown)
    elements = re.findall(r"<(?:a|img|script|!--)\b[^>]*>", html)
    return elements + re.findall(r"(?<!\w)@\w+|#\d+|\bGH-\d+|\bwww\.\w+", unescape(re.sub("<[^>]*>", "", html)))


def test_a_pull_request_has_one_comment_and_the_gates_decide_the_job(tmp_path: Path, comments: Comments) -> None:
    """In the first commit a setting fails with the text of an attacker; in the second a gate fails."""
    config = CONFIG.replace("top_k: 3}", "top_k: 10}\n  bm25: {kind: bm25, top_k: 10}").replace("latency:", BROKEN)
    small_experiment(tmp_path / "trial", config=config, functions=SHOUTING)
    comments.add(f"{MARKER}of a stranger", "stranger")
    first = Job(tmp_path, tmp_path / "1", pull_request(sha="c" * 40), comments.address)
    outputs = first.action({**GIVEN, "fail-if": "dense: ndcg@10 < 0.1\n\nbm25: ndcg@10 < 0.1\n"})
    assert (first.code, outputs["exit-code"]) == (4, "4"), first.log
    stranger, own = comments.comments
    assert stranger["body"] == f"{MARKER}of a stranger"
    assert own["body"] == f"{MARKER}{first.summary}"
    assert first.summary.startswith("### small: incomplete (2 gates: 2 passed)\n")
    assert links(first.summary) == ['<a href="https://github.com/owner/app/actions/runs/42">']
    assert "::error::of a function" in first.log
    assert set(re.findall("token: (.*)", first.log)) == {"False"}
    assert first.commands() == []
    restored, saved = (given for name, given in first.used if name.startswith("actions/cache/"))
    assert re.fullmatch("ragtrial-Linux-[0-9a-f]{32}", restored["key"])
    assert {**saved, "restore-keys": "ragtrial-Linux-"} == restored

    second = Job(tmp_path, tmp_path / "2", pull_request(sha="d" * 40), comments.address)
    gates = "retrievers.broken.embedder.function=hashing:embed"
    outputs = second.action({**GIVEN, "fail-if": "ndcg@10 >= 0", "set": gates, "baseline": "bm25", "comment": "yes"})
    assert (second.code, outputs["exit-code"]) == (1, "1"), second.log
    assert comments.comments == [stranger, own]
    assert own["body"].startswith(f"{MARKER}### small: failed (1 gate: 1 failed)\n")
    assert f"Commit {'d' * 40}, " in own["body"]
    assert len(second.used) == 2, "the cache is saved if a gate fails, too"
    assert {path.name for path in Path(outputs["folder"]).iterdir()} == {"gates.md", "gates.xml"}
    assert not list(tmp_path.rglob("no"))


@pytest.mark.parametrize(("event", "given", "requests"), [
    (pull_request(head="fork/app"), {}, 0), ({}, {}, 0), (pull_request(), {"comment": "no"}, 0),
    (pull_request(), {}, 3),
], ids=["fork", "push", "unwanted", "own"])  # fmt: skip
def test_the_summary_is_always_written_and_only_own_branches_get_a_comment(
    tmp_path: Path, comments: Comments, event: dict[str, Any], given: dict[str, str], requests: int
) -> None:
    """Even where nothing could be installed."""
    job = Job(tmp_path, tmp_path / "temp", event, comments.address, code=1)
    job.action({**GIVEN, **given})
    assert job.summary.startswith("### <code>trial/experiment.yaml</code>: no result\n\nragtrial did not run")
    assert len(comments.requests) == requests
    assert job.used == []


def test_actions_of_others_are_pinned() -> None:
    """A tag can be moved to other code."""
    steps = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["runs"]["steps"]
    used = [step["uses"] for step in steps if "uses" in step]
    assert len(used) == 3
    assert all(re.fullmatch("actions/[a-z/-]+@[0-9a-f]{40}", name) for name in used)


@pytest.mark.parametrize(("given", "words"), [
    ({}, ["--constraint", f"{ROOT}/constraints/cpu.txt", str(ROOT)]),
    ({"extras": "pdf"}, ["--constraint", f"{ROOT}/constraints/cpu.txt", f"{ROOT}[pdf]"]),
    ({"install": "a.whl\n$(touch no)"}, ["--requirement", "a.whl\n$(touch no)\n"]),
])  # fmt: skip
def test_what_is_installed(tmp_path: Path, given: dict[str, str], words: list[str]) -> None:
    job = Job(tmp_path, tmp_path / "temp", {}, tools=tmp_path)
    (tmp_path / "python").write_text('#!/bin/bash\nprintf "%s\\n" "${@:5}"; cat "${@: -1}"; exit 1\n')
    (tmp_path / "python").chmod(0o755)
    job.action({**GIVEN, "working-directory": ".", "install": "", **given})
    assert all(word in job.log for word in words), job.log
    assert not list(tmp_path.rglob("no"))


def test_an_experiment_that_cannot_be_planned_has_no_fingerprint(tmp_path: Path) -> None:
    """As before its model is downloaded; the run asks once more. A workspace is no other output."""
    job = Job(tmp_path, tmp_path / "temp", {})
    job.steps([{"run": 'python "$GITHUB_ACTION_PATH/action/plan.py" gone.yaml'}], {})
    assert (job.code, job.log) == (0, "fingerprint=\nworkspace=~/.cache/ragtrial\n")
    small_experiment(tmp_path)
    job = Job(tmp_path, tmp_path / "temp", {})
    more = """--set 'workspace="a\\nfingerprint=of an attacker"'"""
    job.steps([{"run": f'python "$GITHUB_ACTION_PATH/action/plan.py" experiment.yaml {more}'}], {})
    assert re.fullmatch(f"fingerprint=[0-9a-f]{{32}}\nworkspace={tmp_path}/a fingerprint=of an attacker\n", job.log)


def test_the_comment_of_the_user_of_a_token_is_found_on_any_page(comments: Comments) -> None:
    pull = PUBLISH["PullRequest"](comments.address, "secret-token", "owner/app", 7)
    for _ in range(150):
        comments.add("text", "stranger")
    comments.login = "robot"
    assert pull.write("<!-- m -->", "a") == "https://c/151"
    assert pull.write("<!-- m -->", "b") == "https://c/151"
    assert comments.comments[150]["body"] == "<!-- m -->\nb"
    assert len(comments.comments) == 151


@pytest.mark.parametrize(("status", "said"), [(403, "Does the job have the permission"), (302, "302"), (500, "500")])
def test_a_comment_that_cannot_be_written_is_a_warning(
    tmp_path: Path, comments: Comments, status: int, said: str
) -> None:
    """A redirect, too: the token goes nowhere else."""
    comments.status = status
    job = Job(tmp_path, tmp_path / "temp", pull_request(), comments.address, code=1)
    job.action(GIVEN)
    (warning,) = job.commands()
    assert warning.startswith("::warning title=ragtrial::The comment was not written")
    assert said in warning
    assert job.summary
    assert ("GET", "/elsewhere") not in comments.requests


def test_a_long_text_is_cut_at_a_line_and_no_fold_stays_open() -> None:
    shortened = PUBLISH["shortened"]
    text = "### a\n\n<details><summary>b</summary>\n\n" + "| row |\n" * 9_000 + "\n</details>\n\n<sub>end</sub>\n"
    assert shortened(text, len(text)) == text
    cut = shortened(text, 65_000)
    assert len(cut) <= 65_000
    assert cut.count("<details>") == cut.count("</details>") == 1
    assert set(cut.splitlines()[4:-6]) == {"| row |"}
    assert cut.endswith("have all.\n\n<sub>end</sub>\n")
    assert PUBLISH["plain"]("a --> <b>") == "a__-___b_"


def test_the_hook_checks_every_config_and_is_quick(tmp_path: Path) -> None:
    """It reports all faults of all files, in less than a second of processor unless the machine is busy."""
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert {"id", "name", "entry", "language"} <= set(hook)
    for name in ("a", "b", "c"):
        config = CONFIG.replace("kind: exact", "kind: wrong") if name != "a" else CONFIG
        small_experiment(tmp_path / name, config=config)
    job = Job(tmp_path, tmp_path / "temp", {})
    before = os.times()
    job.steps([{"run": f"{hook['entry']} a b/experiment.yaml c gone/experiment.yaml"}], {})
    after = os.times()
    assert job.code == 2
    assert re.findall("^error: ([abc]|gone)/experiment.yaml", job.log, re.MULTILINE) == ["b", "c", "gone"]
    assert after.children_user + after.children_system - before.children_user - before.children_system < 1.5

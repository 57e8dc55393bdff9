"""``ragtrial demo`` compares retrievers on the packaged sample, without a model, and leaves other files alone."""

import re
from pathlib import Path

import pytest

from ragtrial import load_report
from small_experiment import Capture, ragtrial, succeeded

SETTINGS = ["hybrid", "dense", "bm25-chunks", "bm25-titles", "bm25"]
"""Best first by the primary metric."""


@pytest.mark.slow
def test_the_demo_compares_five_settings_and_can_be_repeated(tmp_path: Path, capsys: Capture) -> None:
    for _ in range(2):
        made = succeeded(capsys, "demo")
        firsts = [line.split()[0] for line in made.out.splitlines() if line]
        assert [word for word in firsts if word in SETTINGS] == [*SETTINGS, *SETTINGS]  # scores and costs
        own = "Your own data: ragtrial init FOLDER --corpus DOCUMENTS --labels QUESTIONS"
        assert made.out.endswith(
            f"\nPage     ragtrial-demo/report.html\n\nGo on: cd ragtrial-demo && ragtrial compare\n{own}\n"
        )
        page = (tmp_path / "ragtrial-demo" / "report.html").read_text(encoding="utf-8")
        assert page.startswith("<!doctype html>")
        pattern = r"^Next: .*: (ragtrial pool .* --config ragtrial-demo/experiment\.yaml)$"
        (command,) = re.findall(pattern, made.out, re.MULTILINE)
        assert command in page
    assert [path.name for path in tmp_path.iterdir()] == ["ragtrial-demo"]
    assert len(list((tmp_path / "ragtrial-demo" / "results" / "demo").glob("*/report.json"))) == 2


@pytest.mark.slow
def test_the_demo_s_json_and_commands_work(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ragtrial(capsys, "demo", "here", "--json", "-q")
    assert made.json["exit_code"] == 0
    report = load_report(Path(made.json["report"]).parent)
    assert [setting.name for setting in report.ranked_settings()] == SETTINGS
    monkeypatch.chdir(tmp_path / "here")
    compared = succeeded(capsys, "compare", "latest", "--json")
    conclusion = compared.json["conclusion"]
    assert (conclusion["kind"], conclusion["top"]) == ("leading", ["hybrid"])
    assert conclusion["verdicts"] == {"worse": ["bm25-chunks", "bm25-titles", "bm25"], "inconclusive": ["dense"]}
    assert conclusion["found"]["by_setting"]["hybrid"] == conclusion["found"]["questions"] == 59
    command = conclusion["next_step"]["command"].split()
    succeeded(capsys, *command[1:])
    succeeded(capsys, "init", "trial")


def test_a_demo_over_other_or_changed_files_is_refused(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "ragtrial-demo").mkdir()
    (tmp_path / "ragtrial-demo" / "report.html").write_text("mine", encoding="utf-8")
    made = ragtrial(capsys, "demo")
    assert (made.code, made.out) == (2, "")
    assert made.err == ("error: ragtrial-demo: is not empty. Name another folder: ragtrial demo FOLDER.\n")
    assert [path.name for path in (tmp_path / "ragtrial-demo").iterdir()] == ["report.html"]
    (tmp_path / "mine" / "documents" / "hub").mkdir(parents=True)
    names = ("experiment.yaml", "documents/hub/webhooks.md")
    for name in names:
        (tmp_path / "mine" / name).write_text("mine", encoding="utf-8")
    made = ragtrial(capsys, "demo", "mine")
    way_out = "differs from the demo's own, and nothing is overwritten. Name another folder: ragtrial demo FOLDER."
    assert (made.code, made.out) == (2, "")
    assert made.err.splitlines() == [f"error: mine/{name}: {way_out}" for name in names]
    assert not (tmp_path / "mine" / "prompt_queries.json").exists()
    assert "Directory 'mine/experiment.yaml' is a file." in ragtrial(capsys, "demo", "mine/experiment.yaml").err

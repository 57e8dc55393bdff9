"""A key of a config is read under its former name, too, and a warning says the new one."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ragtrial.config import load_config
from ragtrial.config.load import config_as_written
from ragtrial.config.settings import settings_of
from ragtrial.errors import ConfigError
from small_experiment import ragtrial, small_experiment

PARTS = "{dense: {kind: dense}, words: {kind: bm25}, hybrid: {kind: fusion, KEY: [dense, words]}}"
HYBRID = ("retrievers={hybrid: {kind: fusion, of: [dense, words]}, words: {kind: bm25}}",)
NOW = "is now called inputs; rename it."


def written(tmp_path: Path, key: str, **more: object) -> Path:
    """The small experiment with a fusion that names its parts under ``key``, and with ``more``."""
    file = small_experiment(tmp_path)
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    content["retrievers"] = yaml.safe_load(PARTS.replace("KEY", key))
    file.write_text(yaml.safe_dump({**content, **more}, sort_keys=False), encoding="utf-8")
    return file


def line_of(file: Path, text: str) -> int:
    lines = file.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_the_former_name_means_the_new_one_and_is_warned_of_with_its_place(tmp_path: Path) -> None:
    new = load_config(written(tmp_path, "inputs"))
    file = written(tmp_path, "of")
    old = load_config(file)
    assert old.retrievers["hybrid"] == new.retrievers["hybrid"]
    assert old.as_written["retrievers"] == new.as_written["retrievers"]
    assert [(one.ranking_key, one.name) for one in settings_of(old)[0]] == [
        (one.ranking_key, one.name) for one in settings_of(new)[0]
    ]
    (warning,) = settings_of(old)[1]
    assert warning.code == "renamed-key"
    assert warning.message.startswith(f"{file}:{line_of(file, 'of:')}:")
    assert warning.message.endswith(f": retrievers.hybrid.of {NOW}")
    assert settings_of(new)[1] == []


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_commands_warn_of_it_and_end_well(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = ragtrial(capsys, command, written(tmp_path, "of"), "--json")
    assert done.code == 0
    assert [one["code"] for one in yaml.safe_load(done.out)["warnings"]].count("renamed-key") == 1
    assert f"retrievers.hybrid.of {NOW}" in done.err


def test_an_override_may_say_the_former_name(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, "inputs"), ["retrievers.hybrid.of=[words, dense]"])
    assert config.retrievers["hybrid"].parts == ("words", "dense")
    assert [one.message for one in config.warnings] == [f"--set #1: retrievers.hybrid.of {NOW}"]


def test_a_config_lies_upon_a_base_with_the_former_name(tmp_path: Path) -> None:
    base = written(tmp_path, "of")
    over = base.with_name("over.yaml")
    over.write_text(f"extends: {base.name}\nretrievers: {{hybrid: {{inputs: [words, dense]}}}}\n", encoding="utf-8")
    assert load_config(over).retrievers["hybrid"].parts == ("words", "dense")


def test_both_names_of_a_key_are_refused_together(tmp_path: Path) -> None:
    file = written(tmp_path, "of")
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("    of:", "    inputs: [dense, words]\n    of:"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"hybrid\.of is now called inputs; take one out"):
        load_config(file)


def test_what_is_no_refiner_has_no_such_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'of' in retrievers\.dense"):
        load_config(written(tmp_path, "inputs"), ["retrievers.dense={kind: dense, of: words}"])


def test_the_config_of_an_older_report_is_read_without_a_warning(tmp_path: Path) -> None:
    content = yaml.safe_load(written(tmp_path, "of").read_text(encoding="utf-8"))
    config = config_as_written(content, tmp_path)
    assert config.retrievers["hybrid"].parts == ("dense", "words")
    assert list(config.warnings) == []

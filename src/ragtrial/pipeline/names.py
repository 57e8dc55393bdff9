"""What each stage goes by, told without making any: the one place where fingerprints of stages are put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from threading import Lock
from typing import Any

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.workspace import DAMAGE, Workspace
from ragtrial.components.contextual_text import Surroundings, name_of_texts
from ragtrial.components.embedders import Embedder
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.refiners import Refiner
from ragtrial.components.tokenizers import Tokenizer, UnitCounter, Words
from ragtrial.config.settings import Setting
from ragtrial.errors import ModelNotFoundError, did_you_mean
from ragtrial.options import TOKENIZERS
from ragtrial.pipeline.searching import RANKINGS_FORMAT, Demand
from ragtrial.records import Question, Unit


class UnmadeError(Exception):
    """The name hangs on what another stage will hold; ``kind`` is the folder of that one."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def _once(name_of: Callable[[Names, Setting], str]) -> Callable[[Names, Setting], str]:
    """``name_of``, found out once for a setting: what it hangs on stays the same for a whole run."""

    @wraps(name_of)
    def name(names: Names, setting: Setting) -> str:
        key = name_of.__name__, setting
        if key not in names._told:  # noqa: SLF001 - a method of it
            names._told[key] = name_of(names, setting)  # noqa: SLF001
        return names._told[key]  # noqa: SLF001

    return name


class Names:
    """The names of the stages over the documents of that fingerprint, and what names are made with: tokenizers, files.

    No model is loaded. Methods raise UnmadeError for a name that hangs on a stage that is not there, and
    ModelNotFoundError for a model or a tokenizer that cannot be found.
    """

    def __init__(self, workspace: Workspace, documents: str) -> None:
        self.documents = documents
        self._workspace = workspace
        self.digest = workspace.digests.digest
        self._lock = Lock()
        self._embedders: dict[Embedder, CachedEmbedder] = {}
        self._tokenizers: dict[Path, Tokenizer] = {}
        self._prefix_files: dict[str, str] = {}
        self._told: dict[tuple[str, Setting], str] = {}
        self._asked: dict[tuple[str, int], tuple[Sequence[Question] | None, str]] = {}

    @_once
    def chunks(self, setting: Setting) -> str:
        """The chunks of ``setting``."""
        tokenizer = self.unit_tokenizer(setting)
        parts = setting.chunker.fingerprint_parts(self.digest)
        counted = [tokenizer.fingerprint, tokenizer.special_tokens] if tokenizer else None
        decided = [] if setting.context.title else ["without titles"]
        if setting.chunker.needs_embedder:
            embedder = self.embedder(setting.embedder)
            decided += [embedder.fingerprint, embedder.document_prefix]
        return fingerprint(["chunks", self.documents, parts, counted, *decided])

    @_once
    def surroundings(self, setting: Setting) -> str:
        """What surrounds its chunks in what is indexed."""
        context = setting.context
        content = self.prefixes_digest(setting)
        return fingerprint(["surroundings", self.chunks(setting), context.identity(), content])

    @_once
    def texts(self, setting: Setting) -> str:
        """What is indexed for its chunks, which is no stage of its own."""
        digest = None
        if not setting.context.is_bare:
            name = self.surroundings(setting)
            if not self._workspace.has("surroundings", name):
                raise UnmadeError("surroundings")
            try:
                digest = Surroundings.read(self._workspace.path("surroundings", name)).digest
            except DAMAGE:
                raise UnmadeError("surroundings") from None
        return name_of_texts(self.chunks(setting), title=setting.context.title, digest=digest)

    @_once
    def lengths(self, setting: Setting) -> str:
        """How long each of these texts is for the model."""
        embedder = self.embedder(setting.embedder)
        counted_by = embedder.tokenizer.fingerprint if embedder.tokenizer else None
        return fingerprint(["lengths", self.texts(setting), embedder.document_prefix, counted_by])

    @_once
    def embeddings(self, setting: Setting) -> str:
        """The vectors of these texts."""
        embedder = self.embedder(setting.embedder)
        return fingerprint(["embeddings", self.texts(setting), embedder.fingerprint, embedder.document_prefix])

    @_once
    def index(self, setting: Setting) -> str:
        """The index of these vectors."""
        return fingerprint(["index", self.embeddings(setting), setting.store.identity()])

    def reach(self, setting: Setting, *, builds: bool = True) -> dict[str, Any]:
        """What tells the ground of a setting's own searches from others; without ``builds`` not that of its index."""
        reached = setting.retriever.reached_by
        found: dict[str, Any] = {} if "chunker" in reached else {"documents": [self.documents]}
        if setting.has_index:
            index = self.index(setting)
            found["index"] = [index, self._build(setting, index)] if builds else [index]
        elif setting.has_chunks:
            found["texts"] = [self.texts(setting)]
        elif "chunker" in reached:
            found["chunks"] = [self.chunks(setting)]
        elif "context" in reached:
            found["context"] = [fingerprint(setting.context.identity())]
        if "embedder" in reached:
            embedder = self.embedder(setting.embedder)
            found["embedder"] = [embedder.fingerprint, embedder.query_prefix, embedder.document_prefix]
        return found

    def _build(self, setting: Setting, index: str) -> str:
        """The build of an index; empty where every build finds the same."""
        if setting.store.is_exact:
            return ""
        build = self._workspace.build_id("indexes", index)
        if not build:
            raise UnmadeError("indexes")
        return build

    def base(self, setting: Setting, *, builds: bool = True) -> list[Any]:
        """What tells the answers of a setting from those of others, whatever it is asked and however deep.

        Without ``builds`` it is the same for all builds of its indexes.
        """
        inputs = setting.retriever.inputs(self.digest)
        parts = [self.base(part, builds=builds) for part in setting.parts]
        return [setting.retriever.identity(), inputs, self.reach(setting, builds=builds), parts]

    def asked(self, setting: Setting, questions: Sequence[Question]) -> Any:
        """What of the questions changes the rankings."""
        own = [setting.retriever.asked(question) for question in questions]
        return [own, *(self.asked(part, setting.wordings(questions)) for part in setting.parts)]

    def asked_name(self, setting: Setting, questions: Sequence[Question]) -> str:
        """The fingerprint of ``asked``, made once for a list of questions: it may be long.

        All that ask the text alone have it in common.
        """
        is_plain = not setting.parts and setting.retriever.asks_the_text_alone
        key = "" if is_plain else setting.ranking_key, id(questions)
        known, name = self._asked.get(key, (None, ""))
        if known is not questions:  # which is held here, so that no other list gets its place in memory
            name = fingerprint(self.asked(setting, questions))
            self._asked[key] = questions, name
        return name

    def rankings(self, setting: Setting, questions: Sequence[Question], unit: Unit, width: int | None = None) -> str:
        """What tells rankings from others, but how deep they are; ``width`` is how widely was searched for them."""
        wide = [] if width is None else [width]
        base, asked = self.base(setting), self.asked_name(setting, questions)
        return fingerprint(["rankings", RANKINGS_FORMAT, base, asked, unit, *wide])

    def latency(self, setting: Setting, questions: Sequence[Question], unit: Unit, seed: int) -> str:
        """How long its single queries take."""
        devices = [
            options.model_dump().get("device") for one in setting.tree() for options in (one.embedder, one.retriever)
        ]
        # Of a retriever, which gets one question at a time, it changes nothing; a refiner has many hits of that one.
        refiners = [one.retriever.model_dump() for one in setting.tree() if isinstance(one.retriever, Refiner)]
        batches = [options["batch_size"] for options in refiners if "batch_size" in options]
        base, top_k = self.rankings(setting, questions, unit), setting.retriever.top_k
        return fingerprint(["latency", base, top_k, seed, devices, *batches])

    def unreachable(self, setting: Setting) -> str:
        """How many vectors its index cannot return."""
        return fingerprint(["reach", self.reach(setting)["index"]])

    def rescored(self, setting: Setting, questions: Sequence[Question], unit: Unit) -> str:
        """The exact scores of what it found."""
        base = self.rankings(setting, questions, unit)
        return fingerprint(["exact scores", base, setting.retriever.top_k])

    def deep_enough(self, base: str, demand: Demand) -> str | None:
        """The name of finished rankings that are as deep as ``demand``: its own, or the least deep that will do."""
        own = at_depth(base, demand)
        if self._workspace.has("rankings", own):
            return own
        deeper = []
        for name, depth in self.depths(base):
            if depth.covers(demand) and self._workspace.has("rankings", name):
                deeper.append((depth.candidates + depth.units, name))
        return min(deeper)[1] if deeper else None

    def depths(self, base: str) -> list[tuple[str, Demand]]:
        """The names of these rankings, and how deep each is."""
        found = []
        for path in self._workspace.path("rankings", base).parent.glob(f"{base}-*"):
            _, candidates, units = path.name.split("-")
            found.append((path.name, Demand(int(candidates), int(units))))
        return found

    def embedder(self, embedder: Embedder) -> CachedEmbedder:
        """One for all settings with this embedder, so that its model is loaded once."""
        with self._lock:
            if embedder not in self._embedders:
                folder = self._workspace.root / "vectors"
                self._embedders[embedder] = CachedEmbedder(embedder, folder, self.digest)
            return self._embedders[embedder]

    def release(self, embedder: Embedder) -> None:
        """Let go of the model of ``embedder``."""
        if embedder in self._embedders:
            self._embedders[embedder].release()

    def unit_tokenizer(self, setting: Setting) -> UnitCounter | None:
        """What counts the chunker's sizes; None for characters."""
        counted_by = setting.chunker.counted_by
        if counted_by == "characters":
            return None
        if counted_by == "words":
            return Words()
        if counted_by != "embedder":
            return self._tokenizer(setting.name, Path(counted_by))
        tokenizer = self.embedder(setting.embedder).tokenizer
        if tokenizer is None:
            raise ModelNotFoundError(
                f"setting {setting.name!r}: its embedder has no tokenizer.json, so tokens cannot be counted; "
                "set chunker.unit: characters or chunker.tokenizer: words."
            )
        return tokenizer

    def _tokenizer(self, setting: str, path: Path) -> Tokenizer:
        """The tokenizer at ``path``, read once."""
        if path not in self._tokenizers:
            if not path.is_file():
                what = "a folder, not a tokenizer file" if path.is_dir() else "not there"
                near = did_you_mean(path.name, TOKENIZERS)
                raise ModelNotFoundError(
                    f"setting {setting!r}: its chunker counts with {path}, which is {what}; "
                    f"chunker.tokenizer must be {', '.join(TOKENIZERS)} or the path of a tokenizer.json.{near}"
                )
            self._tokenizers[path] = Tokenizer(path)
        return self._tokenizers[path]

    def prefixes_digest(self, setting: Setting) -> str | None:
        """The hash of its file of prefixes, the same for the whole run; empty if it cannot be read, None for none."""
        if setting.context.prefixes is None:
            return None
        file = setting.context.prefixes
        if file not in self._prefix_files:
            try:
                self._prefix_files[file] = self.digest(Path(file))
            except OSError:  # reading it will say so
                return ""
        return self._prefix_files[file]


def at_depth(base: str, demand: Demand) -> str:
    """The name of rankings that are so deep."""
    return f"{base}-{demand.candidates}-{demand.units}"

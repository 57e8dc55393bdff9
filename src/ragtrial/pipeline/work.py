"""The kinds of work that go at one rate each: the names under which rates are noted and looked up."""

from __future__ import annotations

from collections.abc import Sequence

from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.config.settings import Setting
from ragtrial.records import Question


def work_of_chunks(setting: Setting) -> str:
    """What goes at one rate, in bytes of documents."""
    return f"chunks {setting.chunker.kind}"


def work_of_embedding(embedder: CachedEmbedder) -> str:
    """What goes at one rate, in tokens; in characters where there is no tokenizer."""
    return f"embedding {embedder.fingerprint}"


def work_of_index(setting: Setting) -> str:
    """What goes at one rate, in vectors."""
    return f"index {setting.store.kind}"


def work_of_rankings(setting: Setting, questions: Sequence[Question]) -> tuple[str, int]:
    """What goes at one rate, and how much of it there is: questions, of a refiner the hits that it looks at."""
    kinds = [setting.retriever.kind, setting.store.kind if setting.has_index else ""]
    options = setting.retriever.model_dump(mode="json")
    model = options.get("model") or options.get("function")
    amount = len(setting.wordings(questions)) * setting.depth_of_parts * len(setting.parts)
    return " ".join(["rankings", *filter(None, [*kinds, model])]), amount if setting.parts else len(questions)


def work_of_latency(setting: Setting) -> str:
    """What goes at one rate, in single questions."""
    return " ".join(["latency", *(one.retriever.kind for one in setting.tree())])


def work_of_audit(setting: Setting) -> str:
    """What goes at one rate, in vectors."""
    return f"audit {setting.store.kind}"

"""What each stage is made of, in the words of the config: so that a plan can tell what changed.

Options go by their dotted names, contents (documents, files, code) by words without a dot, with a hash as the value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragtrial.environment import without_secrets
from ragtrial.grading import Unit
from ragtrial.names import Names
from ragtrial.records import Question
from ragtrial.setting import Setting
from ragtrial.storage.fingerprints import fingerprint

MadeOf = dict[str, Any]
"""JSON values by the name of what they are."""

RETRIEVER = "retriever."
"""The begin of the names of a retriever's own options, in place of ``retrievers.`` and its name in the config."""

_NAMING = ("kind", "model", "revision", "function")
"""The options that tell embedders from one another to their users; what is hashed of a model are its files."""


def of_chunks(names: Names, setting: Setting) -> MadeOf:
    """What the chunks of ``setting`` are made of."""
    chunker = setting.chunker
    options = chunker.model_dump(mode="json")
    found = {"documents": names.documents, **_flat("chunker", options), "context.title": setting.context.title}
    parts = chunker.fingerprint_parts(names.digest)
    found["chunker code"] = fingerprint({name: value for name, value in parts.items() if name not in options})
    tokenizer = names.unit_tokenizer(setting)
    if chunker.counted_by == "embedder" and not chunker.needs_embedder:
        found |= _naming(setting)
    if tokenizer is not None:
        owner = "embedder" if chunker.counted_by == "embedder" else "chunker"
        found[f"{owner} tokenizer"] = fingerprint([tokenizer.fingerprint, tokenizer.special_tokens])
    return found | (_of_embedder(names, setting) if chunker.needs_embedder else {})


def of_texts(names: Names, setting: Setting) -> MadeOf:
    """What is put around the chunks, and these."""
    found = of_chunks(names, setting) | _flat("context", setting.context.model_dump(mode="json"))
    if setting.context.prefixes is not None:
        found["context prefixes"] = names.prefixes_digest(setting)
    return found


def of_lengths(names: Names, setting: Setting) -> MadeOf:
    """What the lengths of the texts are made of."""
    embedder = names.embedder(setting.embedder)
    counted_by = embedder.tokenizer.fingerprint if embedder.tokenizer else None
    own = {"embedder.document_prefix": embedder.document_prefix, "embedder tokenizer": counted_by}
    return of_texts(names, setting) | _naming(setting) | own


def of_embeddings(names: Names, setting: Setting) -> MadeOf:
    """What the vectors are made of."""
    return of_texts(names, setting) | _of_embedder(names, setting)


def of_index(names: Names, setting: Setting) -> MadeOf:
    """What the index is made of."""
    return of_embeddings(names, setting) | _flat("store", setting.store.model_dump(mode="json"))


def of_rankings(names: Names, setting: Setting, questions: Sequence[Question], unit: Unit) -> MadeOf:
    """What the rankings are made of; those of parts go by what tells them from others. Raises UnmadeError."""
    retriever, reached = setting.retriever, setting.retriever.reached_by
    identity, fields = retriever.identity(), type(retriever).model_fields
    found = _flat(RETRIEVER[:-1], {name: value for name, value in identity.items() if name in fields})
    code = {name: value for name, value in identity.items() if name not in fields}
    found["retriever code"] = fingerprint([code, retriever.inputs(names.digest)])
    found["questions"] = names.asked_name(setting, questions)
    found["evaluators.unit"] = unit
    if setting.has_index:
        found |= of_index(names, setting)
    elif setting.has_chunks:
        found |= of_texts(names, setting)
    elif "chunker" in reached:
        found |= of_chunks(names, setting)
    elif "context" in reached:
        found |= _flat("context", setting.context.model_dump(mode="json"))
    if "embedder" in reached:
        found |= _of_embedder(names, setting)
        found["embedder.query_prefix"] = names.embedder(setting.embedder).query_prefix
    if setting.parts:
        found["parts"] = fingerprint([names.base(part) for part in setting.parts])
    return {"documents": names.documents, **found}


def _of_embedder(names: Names, setting: Setting) -> MadeOf:
    embedder = names.embedder(setting.embedder)
    options = type(setting.embedder).model_fields
    parts = embedder.parts
    found = _naming(setting) | _all_open({f"embedder.{name}": parts[name] for name in parts if name in options})
    found["embedder.document_prefix"] = embedder.document_prefix
    found["embedder files"] = fingerprint({name: value for name, value in parts.items() if name not in options})
    return found


def _naming(setting: Setting) -> MadeOf:
    options = setting.embedder.model_dump(mode="json", include=set(_NAMING))
    return {f"embedder.{name}": options[name] for name in _NAMING if name in options}


def _flat(prefix: str, options: Mapping[str, Any]) -> MadeOf:
    """``options`` by their dotted names; options within options, too."""
    return _all_open(dict(_named(prefix, options)))


def _named(prefix: str, options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _named(f"{prefix}.{name}", value)
        else:
            yield f"{prefix}.{name}", value


def _all_open(values: MadeOf) -> MadeOf:
    """Each of ``values`` as ``_open`` gives it; to look through all at once is quicker, and most have no secret."""
    written = json.dumps(values, ensure_ascii=False)
    return values if without_secrets(written) == written else {name: _open(one) for name, one in values.items()}


def _open(value: Any) -> Any:
    """``value``; of one with a secret the name of its variable, and a hash that tells it from others."""
    written = json.dumps(value, ensure_ascii=False)
    told = without_secrets(written)
    return value if told == written else f"{told} (hash {fingerprint(value)[:8]})"


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The names of what differs: options first, in their order; contents where no option of theirs tells it."""
    differing = [name for name in {**now, **before} if before.get(name) != now.get(name)]
    options = [name for name in differing if "." in name]
    told = {name.partition(".")[0] for name in options}
    return [*options, *(name for name in differing if "." not in name and name.partition(" ")[0] not in told)]


def told(name: str, before: Mapping[str, Any], now: Mapping[str, Any], entry: str = "") -> str:
    """``chunker.size changed from 256 to 512``; of a content only that it changed.

    ``entry`` is the name in the config of the retriever whose options these are.
    """
    if "." not in name:
        return f"{name} changed"
    shown = f"retrievers.{entry}.{name.removeprefix(RETRIEVER)}" if entry and name.startswith(RETRIEVER) else name
    return f"{shown} changed from {_shown(before, name)} to {_shown(now, name)}"


def _shown(values: Mapping[str, Any], name: str) -> str:
    if name not in values:
        return "nothing"
    value = values[name]
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return repr(value) if isinstance(value, str) and (not value or value != value.strip()) else str(value)

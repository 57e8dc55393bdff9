"""What each stage is made of, in the words of the config: so that a plan can tell what changed.

Options go by their dotted names, contents (documents, files, code) by words without a dot, with a hash as the value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.config.settings import Setting
from ragtrial.pipeline.names import Names
from ragtrial.records import Question, Unit
from ragtrial.report.environment import without_secrets

P = ParamSpec("P")

MadeOf = dict[str, Any]
"""JSON values by the name of what they are."""

RETRIEVER = "retriever."
"""The begin of the names of a retriever's own options, in place of ``retrievers.`` and its name in the config."""

_NAMING = ("kind", "model", "revision", "function")
"""The options that tell embedders from one another to their users; what is hashed of a model are its files."""


def _open(values_of: Callable[P, MadeOf]) -> Callable[P, MadeOf]:
    """``values_of``, but of a value with a secret the name of its variable, and a hash that tells it from others."""

    @wraps(values_of)
    def opened(*given: P.args, **named: P.kwargs) -> MadeOf:
        values = values_of(*given, **named)
        written = json.dumps(values, ensure_ascii=False)  # all at once is quicker, and most have no secret
        is_open = without_secrets(written) == written
        return values if is_open else {name: _without_secrets(one) for name, one in values.items()}

    return opened


def _chunks(names: Names, setting: Setting) -> MadeOf:
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


def _texts(names: Names, setting: Setting) -> MadeOf:
    found = _chunks(names, setting) | _flat("context", setting.context.model_dump(mode="json"))
    if setting.context.prefixes is not None:
        found["context prefixes"] = names.prefixes_digest(setting)
    return found


def _lengths(names: Names, setting: Setting) -> MadeOf:
    embedder = names.embedder(setting.embedder)
    counted_by = embedder.tokenizer.fingerprint if embedder.tokenizer else None
    own = {"embedder.document_prefix": embedder.document_prefix, "embedder tokenizer": counted_by}
    return _texts(names, setting) | _naming(setting) | own


def _embeddings(names: Names, setting: Setting) -> MadeOf:
    return _texts(names, setting) | _of_embedder(names, setting)


def _index(names: Names, setting: Setting) -> MadeOf:
    return _embeddings(names, setting) | _flat("store", setting.store.model_dump(mode="json"))


def _rankings(names: Names, setting: Setting, questions: Sequence[Question], unit: Unit) -> MadeOf:
    retriever, reached = setting.retriever, setting.retriever.reached_by
    identity, fields = retriever.identity(), type(retriever).model_fields
    found = _flat(RETRIEVER[:-1], {name: value for name, value in identity.items() if name in fields})
    code = {name: value for name, value in identity.items() if name not in fields}
    found["retriever code"] = fingerprint(code)
    found[f"retriever {retriever.inputs_are}"] = fingerprint(retriever.inputs(names.digest))
    found["questions"] = names.asked_name(setting, questions)
    found["evaluators.unit"] = unit
    if setting.has_index:
        found |= _index(names, setting)
    elif setting.has_chunks:
        found |= _texts(names, setting)
    elif "chunker" in reached:
        found |= _chunks(names, setting)
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
    found = _naming(setting) | {f"embedder.{name}": parts[name] for name in parts if name in options}
    found["embedder.document_prefix"] = embedder.document_prefix
    found["embedder files"] = fingerprint({name: value for name, value in parts.items() if name not in options})
    return found


def _naming(setting: Setting) -> MadeOf:
    options = setting.embedder.model_dump(mode="json", include=set(_NAMING))
    return {f"embedder.{name}": options[name] for name in _NAMING if name in options}


def _flat(prefix: str, options: Mapping[str, Any]) -> MadeOf:
    """``options`` by their dotted names; options within options, too."""
    return dict(_named(prefix, options))


def _named(prefix: str, options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _named(f"{prefix}.{name}", value)
        else:
            yield f"{prefix}.{name}", value


def _without_secrets(value: Any) -> Any:
    written = json.dumps(value, ensure_ascii=False)
    told = without_secrets(written)
    return value if told == written else f"{told} (hash {fingerprint(value)[:8]})"


of_chunks = _open(_chunks)
"""What the chunks of a setting are made of."""

of_texts = _open(_texts)
"""What is put around its chunks, and these."""

of_lengths = _open(_lengths)
"""What the lengths of its texts are made of."""

of_embeddings = _open(_embeddings)
"""What its vectors are made of."""

of_index = _open(_index)
"""What its index is made of."""

of_rankings = _open(_rankings)
"""What its rankings for some questions are made of; those of parts go by what tells them from others.

Raises UnmadeError.
"""


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

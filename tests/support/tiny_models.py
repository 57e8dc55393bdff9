"""Models of the real class with random weights: small enough to load in no time."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import BertConfig, PreTrainedModel

DIMENSION = 16
MOST_TOKENS = 64


def write_tiny_model(folder: Path, tokenizer: Path, seed: int, prompts: dict[str, str] | None = None) -> Path:
    """A sentence-transformers model with the tokenizer of the folder ``tokenizer``, saved in ``folder``."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertModel

    torch.manual_seed(seed)
    bare = _saved_bare(BertModel(_config()), folder, tokenizer)
    modules = [Transformer(str(bare), max_seq_length=MOST_TOKENS), Pooling(DIMENSION)]
    SentenceTransformer(modules=modules, prompts=prompts, device="cpu").save(str(folder), create_model_card=False)
    shutil.rmtree(bare)
    return folder


def edit_json(file: Path, **changes: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text(encoding="utf-8")), **changes}), encoding="utf-8")


def write_tiny_cross_encoder(folder: Path, tokenizer: Path, seed: int, labels: int = 1) -> Path:
    """A cross-encoder of the real class with the tokenizer of the folder ``tokenizer``, saved in ``folder``.

    Its scores are about 60: a sigmoid makes each of them 1.
    """
    import torch
    from transformers import BertForSequenceClassification

    torch.manual_seed(seed)
    model = BertForSequenceClassification(_config(initializer_range=0.5, num_labels=labels))
    torch.nn.init.constant_(model.classifier.bias, 60)  # where a sigmoid tells no two scores apart
    model.save_pretrained(str(folder))
    _copy_tokenizer(tokenizer, folder)
    return folder


def write_tiny_sparse_encoder(folder: Path, tokenizer: Path, seed: int, bias: float = -7.0, **saved: object) -> Path:
    """A SPLADE model of the real class; the lower ``bias``, the fewer of its 30,522 terms weigh anything.

    ``saved`` are arguments of SparseEncoder, such as its similarity or its prompts.
    """
    import torch
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sparse_encoder.modules import SpladePooling
    from transformers import BertForMaskedLM

    torch.manual_seed(seed)
    model = BertForMaskedLM(_config(initializer_range=0.5))
    torch.nn.init.constant_(model.cls.predictions.bias, bias)
    bare = _saved_bare(model, folder, tokenizer)
    modules = [Transformer(str(bare), transformer_task="fill-mask", max_seq_length=MOST_TOKENS), SpladePooling("max")]
    SparseEncoder(modules=modules, device="cpu", **saved).save(str(folder), create_model_card=False)
    shutil.rmtree(bare)
    return folder


def write_tiny_late_encoder(folder: Path, tokenizer: Path, seed: int, **saved: object) -> Path:
    """A ColBERT model of the real class: prompts, punctuation left out, questions filled up with [MASK].

    ``saved`` are arguments of MultiVectorEncoder, such as its similarity.
    """
    import torch
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
    from transformers import BertModel

    torch.manual_seed(seed)
    bare = _saved_bare(BertModel(_config(initializer_range=0.5)), folder, tokenizer)
    expansion = {"strategy": "fixed", "attend": False, "length": 16}
    modules = [
        Transformer(str(bare), max_seq_length=MOST_TOKENS, document_length=48, query_expansion=expansion),
        Dense(DIMENSION, 8, bias=False, activation_function=torch.nn.Identity(), module_input_name="token_embeddings"),
        MultiVectorMask(skiplist_words=list(".,!?")),
        Normalize(module_input_name="token_embeddings"),
    ]
    prompts = {"query": "query: ", "document": "document: "}
    model = MultiVectorEncoder(modules=modules, device="cpu", prompts=prompts, **saved)
    model.save(str(folder), create_model_card=False)
    shutil.rmtree(bare)
    return folder


def _config(**options: Any) -> BertConfig:
    """The size of a model; with an ``initializer_range`` of 0.5 random vectors differ from text to text."""
    from transformers import BertConfig

    return BertConfig(
        vocab_size=30_522, hidden_size=DIMENSION, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=MOST_TOKENS, **options,
    )  # fmt: skip


def _saved_bare(model: PreTrainedModel, folder: Path, tokenizer: Path) -> Path:
    bare = folder.with_name(f"{folder.name}-bare")
    model.save_pretrained(str(bare))
    _copy_tokenizer(tokenizer, bare)
    return bare


def _copy_tokenizer(tokenizer: Path, folder: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        shutil.copy(tokenizer / name, folder)


def _transformer(folder: Path, tokenizer: Path, seed: int, **options: object) -> Any:
    """A transformer of the real class with random weights, whose vectors differ from text to text."""
    import torch
    from sentence_transformers.base.modules import Transformer
    from transformers import BertModel

    torch.manual_seed(seed)
    bare = _saved_bare(BertModel(_config(initializer_range=0.5)), folder, tokenizer)
    module = Transformer(str(bare), **{"max_seq_length": MOST_TOKENS, **options})
    shutil.rmtree(bare)
    return module


def _static(tokenizer: Path, seed: int) -> Any:
    import torch
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer

    torch.manual_seed(seed)
    return StaticEmbedding(Tokenizer.from_file(str(tokenizer / "tokenizer.json")), embedding_dim=DIMENSION)


FORMS = (
    "plain", "prompts", "one prompt", "passage prompt", "prompt not pooled", "static", "two static routes",
    "two transformer routes", "a route without a model", "a shared route", "query length", "document length",
    "dense layer", "limit above positions", "files in a folder",
)  # fmt: skip
"""Models of the sentence-transformers library that encode queries and documents in ways of their own."""


def write_model_of(form: str, folder: Path, tokenizer: Path) -> Path:
    """A model of one of FORMS, saved by the library itself."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense, Normalize, Router
    from sentence_transformers.sentence_transformer.modules import Pooling

    def one(seed: int = 1, **options: object) -> Any:
        return _transformer(folder, tokenizer, seed, **options)

    def pooled(seed: int) -> list[Any]:
        return [one(seed), Pooling(DIMENSION)]

    def shared() -> list[Any]:
        model = one()
        return [Router.for_query_document(*([model, Pooling(DIMENSION), Dense(DIMENSION, 8)] for _ in range(2)))]

    prompts: dict[str, dict[str, str]] = {
        "prompts": {"query": "query: ", "document": "text: "},
        "one prompt": {"query": "Represent the question: "},
        "passage prompt": {"query": "query: ", "passage": "passage: "},
        "prompt not pooled": {"query": "query: ", "document": "passage of a page: "},
        "two transformer routes": {"query": "query: "},
    }
    pooling = Pooling(DIMENSION, include_prompt=form != "prompt not pooled")
    makers: dict[str, Callable[[], list[Any]]] = {
        "static": lambda: [_static(tokenizer, 1)],
        "two static routes": lambda: [Router.for_query_document([_static(tokenizer, 1)], [_static(tokenizer, 2)])],
        "two transformer routes": lambda: [Router.for_query_document(pooled(1), pooled(2)), Normalize()],
        "a route without a model": lambda: [Router.for_query_document([_static(tokenizer, 1)], pooled(2))],
        "a shared route": shared,
        "dense layer": lambda: [one(), pooling, Dense(DIMENSION, 8)],
        "query length": lambda: [one(query_length=6), pooling],
        "document length": lambda: [one(document_length=7), pooling],
    }
    modules = makers.get(form, lambda: [one(), pooling])()
    SentenceTransformer(modules=modules, prompts=prompts.get(form), device="cpu").save(
        str(folder), create_model_card=False
    )
    if form in ("limit above positions", "files in a folder"):
        _without_own_limit(folder, "0_Transformer" if form == "files in a folder" else "")
    return folder


def _without_own_limit(folder: Path, moved: str) -> None:
    """Leave the limit to the tokenizer and the positions; the files of the transformer are ``moved`` into a folder."""
    inner = folder / moved
    inner.mkdir(exist_ok=True)
    for path in [path for path in folder.iterdir() if path.is_file() and moved]:
        if not path.name.startswith(("modules", "config_")):
            path.rename(inner / path.name)
    listed = json.loads((folder / "modules.json").read_text())
    listed[0]["path"] = moved
    (folder / "modules.json").write_text(json.dumps(listed))
    (inner / "sentence_bert_config.json").write_text("{}")
    edit_json(inner / "tokenizer_config.json", model_max_length=8_192)

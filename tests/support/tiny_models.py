"""Models of the real class with random weights: small enough to load in no time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import BertConfig, PreTrainedModel

DIMENSION = 16
MOST_TOKENS = 64


def write_tiny_model(folder: Path, tokenizer: Path, seed: int, prompts: dict[str, str] | None = None) -> Path:
    """A sentence-transformers model with the tokenizer of the folder ``tokenizer``, saved in ``folder``."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel

    bare = folder.with_name(f"{folder.name}-bare")
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=30_522,
        hidden_size=DIMENSION,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=MOST_TOKENS,
    )
    BertModel(config).save_pretrained(str(bare))
    _copy_tokenizer(tokenizer, bare)
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
    config = _wide_config()
    config.num_labels = labels
    model = BertForSequenceClassification(config)
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
    model = BertForMaskedLM(_wide_config())
    torch.nn.init.constant_(model.cls.predictions.bias, bias)
    bare = _saved_bare(model, folder, tokenizer)
    modules = [Transformer(str(bare), transformer_task="fill-mask", max_seq_length=MOST_TOKENS), SpladePooling("max")]
    SparseEncoder(modules=modules, device="cpu", **saved).save(str(folder), create_model_card=False)  # type: ignore[arg-type]
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
    bare = _saved_bare(BertModel(_wide_config()), folder, tokenizer)
    expansion = {"strategy": "fixed", "attend": False, "length": 16}
    modules = [
        Transformer(str(bare), max_seq_length=MOST_TOKENS, document_length=48, query_expansion=expansion),
        Dense(DIMENSION, 8, bias=False, activation_function=torch.nn.Identity(), module_input_name="token_embeddings"),
        MultiVectorMask(skiplist_words=list(".,!?")),
        Normalize(module_input_name="token_embeddings"),
    ]
    prompts = {"query": "query: ", "document": "document: "}
    model = MultiVectorEncoder(modules=modules, device="cpu", prompts=prompts, **saved)  # type: ignore[arg-type]
    model.save(str(folder), create_model_card=False)
    shutil.rmtree(bare)
    return folder


def _wide_config() -> BertConfig:
    """Of a model whose random vectors differ from text to text."""
    from transformers import BertConfig

    return BertConfig(
        vocab_size=30_522,
        hidden_size=DIMENSION,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=MOST_TOKENS,
        initializer_range=0.5,
    )


def _saved_bare(model: PreTrainedModel, folder: Path, tokenizer: Path) -> Path:
    bare = folder.with_name(f"{folder.name}-bare")
    model.save_pretrained(str(bare))
    _copy_tokenizer(tokenizer, bare)
    return bare


def _copy_tokenizer(tokenizer: Path, folder: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        shutil.copy(tokenizer / name, folder)

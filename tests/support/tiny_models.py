"""Models of the real class with random weights: small enough to load in no time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

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
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        shutil.copy(tokenizer / name, bare)
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
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=30_522,
        hidden_size=DIMENSION,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=MOST_TOKENS,
        initializer_range=0.5,
    )
    config.num_labels = labels
    model = BertForSequenceClassification(config)
    torch.nn.init.constant_(model.classifier.bias, 60)  # where a sigmoid tells no two scores apart
    model.save_pretrained(str(folder))
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        shutil.copy(tokenizer / name, folder)
    return folder

"""A real chat server in OpenAI's form, transformers' own, with a tiny model of random weights that is made here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local_servers import local_server

TEMPLATE = "{% for one in messages %}{{ one['role'] }}: {{ one['content'] }}\n{% endfor %}assistant:"


def random_model(folder: Path) -> Path:
    """A Llama of two layers that writes any bytes, saved in ``folder``: what it says is noise, always the same."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    letters = ["<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE(vocab={letter: code for code, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    fast.chat_template = TEMPLATE
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(letters), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=16_384,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


@contextmanager
def chat_server(log: Path) -> Iterator[str]:
    """The URL of a server on the loopback that is ready; it ends with the block."""
    program = str(Path(sys.executable).with_name("transformers"))

    def command(port: int) -> list[str]:
        return [program, "serve", "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]

    with local_server(command, log, {"HF_HUB_OFFLINE": "1"}) as address:
        yield f"{address}/v1"

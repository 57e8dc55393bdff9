"""A real chat server in OpenAI's form, transformers' own, with a tiny model of random weights that is made here."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

LONGEST = 180.0

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
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="</s>")
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
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = str(Path(sys.executable).with_name("transformers"))
    command = [program, "serve", "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    with log.open("w") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True, env=environment)
    try:
        deadline = time.monotonic() + LONGEST
        while not _is_ready(f"http://127.0.0.1:{port}/health"):
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server does not start: {log.read_text()}")
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _is_ready(url: str) -> bool:
    try:
        with urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False

"""A real server of embeddings in OpenAI's form, LitServe's, in processes of its own."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local_servers import local_server


@contextmanager
def embedding_server(model: Path, log: Path) -> Iterator[str]:
    """The URL of a server on the loopback that is ready; its processes end with the block."""
    program = str(Path(__file__).with_name("litserve_embeddings.py"))
    with local_server(lambda port: [sys.executable, program, str(model), str(port)], log) as address:
        yield f"{address}/v1"

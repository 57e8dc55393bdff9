"""Transformers in OpenVINO instead of torch: a model is converted in memory each time it is loaded.

Optimum is not used: its packages require older versions of transformers than sentence-transformers 6 does.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, cast

from ragtrial.errors import EmbedderError

if TYPE_CHECKING:
    from types import ModuleType

    from sentence_transformers import SentenceTransformer

Backend = Literal["torch", "openvino"]
Precision = Literal["float32", "bfloat16"]

LIBRARIES = ("sentence-transformers", "transformers", "tokenizers", "torch")
"""The packages that models of the library need with every backend."""

_OUTPUT = "last_hidden_state"


def convert(model: SentenceTransformer, precision: Precision) -> None:
    """Make OpenVINO run the transformers of ``model``, in place. Raises EmbedderError if the model has no usual one.

    Pooling, normalisation and static word vectors in a separate route stay as they are.
    """
    modules = {id(module): module for module in _input_modules(model)}.values()
    usable = [module for module in modules if _gives_token_vectors(module)]
    if not usable or any(hasattr(module, "model") for module in modules if module not in usable):
        raise EmbedderError("embedder.backend: openvino needs a transformer that returns a vector for each token.")
    for module in usable:
        _convert_module(module, precision)


def _input_modules(model: Any) -> Iterator[Any]:
    """The modules that read texts: one for each route."""
    routes = getattr(model[0], "sub_modules", None)
    yield from (model[0],) if routes is None else (route[0] for route in routes.values())


def _gives_token_vectors(module: Any) -> bool:
    outputs = getattr(module, "modality_config", {}).get("text", {})
    return bool(outputs.get("method") == "forward" and outputs.get("method_output_name") == _OUTPUT)


def _convert_module(module: Any, precision: Precision) -> None:
    import torch
    from transformers.modeling_outputs import BaseModelOutput

    transformer = module.model.eval()
    features = module.preprocess(["a text", "another, longer text"])
    sample = {name: value for name, value in features.items() if isinstance(value, torch.Tensor)}
    with _quietly():
        run = _compiled(transformer, sample, precision)

    class Converted(torch.nn.Module):
        """Replaces the transformer, so that torch's weights are freed."""

        def __init__(self) -> None:
            super().__init__()
            self.config = transformer.config

        def forward(self, **features: Any) -> BaseModelOutput:
            vectors = run({name: features[name].numpy() for name in sample})
            return BaseModelOutput(last_hidden_state=torch.from_numpy(vectors))

    module.model = Converted()


def _compiled(transformer: Any, sample: dict[str, Any], precision: Precision) -> Callable[[dict[str, Any]], Any]:
    # OpenVINO reports its use over the network on import, unless this package cannot be imported.
    sys.modules.setdefault("openvino_telemetry", cast("ModuleType", None))
    import openvino

    core = openvino.Core()
    if precision == "bfloat16" and "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        raise EmbedderError("this processor has no bfloat16; set embedder.precision: float32.")
    converted = openvino.convert_model(transformer, example_input=sample)
    hint = "bf16" if precision == "bfloat16" else "f32"
    compiled = core.compile_model(converted, "CPU", {"INFERENCE_PRECISION_HINT": hint})
    output = compiled.output(_OUTPUT)
    return lambda features: compiled(features)[output]


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Keep converters from printing: their warnings are for the authors of the model."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)

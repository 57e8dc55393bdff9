"""Transformers on engines other than torch: a model is converted in memory each time it is loaded.

Optimum is not used: its packages require older versions of transformers than sentence-transformers 6 does.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from ragtrial.errors import EmbedderError, InputError

if TYPE_CHECKING:
    from types import ModuleType

    from sentence_transformers import SentenceTransformer

Backend = Literal["torch", "onnx", "openvino"]
Precision = Literal["float32", "bfloat16", "int8"]

_PACKAGES: Mapping[tuple[Backend, Precision], tuple[str, ...]] = {
    ("onnx", "float32"): ("onnxruntime", "onnx", "onnxscript"),
    ("openvino", "float32"): ("openvino",),
    ("openvino", "bfloat16"): ("openvino",),
    ("openvino", "int8"): ("openvino", "nncf"),
}
LIBRARIES = ("sentence-transformers", "transformers", "tokenizers", "torch")
"""The packages that models of the library need with every backend."""

_REFUSED: Mapping[tuple[Backend, Precision], str] = {
    ("torch", "int8"): "torch's int8 is no faster than float32, and its vectors differ a lot; set backend: openvino",
    ("onnx", "bfloat16"): "ONNX Runtime has no bfloat16 on CPUs; set backend: openvino",
    (
        "onnx",
        "int8",
    ): "ONNX Runtime's int8 is no faster than float32, and its vectors differ a lot; set backend: openvino",
}
_OUTPUT = "last_hidden_state"
_Run = Callable[[dict[str, Any]], Any]


def refusal(backend: Backend, precision: Precision, device: str | None) -> str | None:
    """Why this combination is not supported, None if it is."""
    if (reason := _REFUSED.get((backend, precision))) is not None:
        return f"precision: {precision} with backend: {backend} is not supported: {reason}."
    if backend != "torch" and device not in (None, "cpu"):
        return f"backend: {backend} with device: {device} is not supported; set device: cpu, or backend: torch."
    return None


def packages_of(backend: Backend, precision: Precision) -> dict[str, str]:
    """The packages that run a model so, each with the extra that brings it."""
    return dict.fromkeys(LIBRARIES, "") | dict.fromkeys(_PACKAGES.get((backend, precision), ()), backend)


def check_packages(backend: Backend, precision: Precision) -> None:
    """Raise InputError if packages that this combination needs are not installed."""
    missing = [one for one in _PACKAGES.get((backend, precision), ()) if importlib.util.find_spec(one) is None]
    if missing:
        message = f"embedder.backend: {backend} with precision: {precision} needs {' and '.join(missing)}"
        raise InputError(f"{message}; install it with `pip install 'ragtrial[{backend}]'`.")


def convert(model: SentenceTransformer, backend: Backend, precision: Precision) -> None:
    """Make ``backend`` run the transformers of ``model``, in place. Raises EmbedderError if the model has no usual one.

    Pooling, normalisation and static word vectors in a separate route stay as they are.
    """
    modules = {id(module): module for module in _input_modules(model)}.values()
    usable = [module for module in modules if _gives_token_vectors(module)]
    if not usable or any(hasattr(module, "model") for module in modules if module not in usable):
        raise EmbedderError(f"embedder.backend: {backend} needs a transformer that returns a vector for each token.")
    for module in usable:
        _convert_module(module, backend, precision)


def _input_modules(model: Any) -> Iterator[Any]:
    """The modules that read texts: one for each route."""
    routes = getattr(model[0], "sub_modules", None)
    yield from (model[0],) if routes is None else (route[0] for route in routes.values())


def _gives_token_vectors(module: Any) -> bool:
    outputs = getattr(module, "modality_config", {}).get("text", {})
    return bool(outputs.get("method") == "forward" and outputs.get("method_output_name") == _OUTPUT)


def _convert_module(module: Any, backend: Backend, precision: Precision) -> None:
    import torch
    from transformers.modeling_outputs import BaseModelOutput

    transformer = module.model.eval()
    sample = {
        name: value
        for name, value in module.preprocess(["a text", "another, longer text"]).items()
        if isinstance(value, torch.Tensor)
    }
    with _quietly():
        run = _onnx(transformer, sample) if backend == "onnx" else _openvino(transformer, sample, precision)

    class Converted(torch.nn.Module):
        """Replaces the transformer, so that torch's weights are freed."""

        def __init__(self) -> None:
            super().__init__()
            self.config = transformer.config

        def forward(self, **features: Any) -> BaseModelOutput:
            held = {name: features[name].numpy() for name in sample}
            return BaseModelOutput(last_hidden_state=torch.from_numpy(run(held)))

    module.model = Converted()


def _openvino(transformer: Any, sample: dict[str, Any], precision: Precision) -> _Run:
    # OpenVINO and NNCF report their use over the network on import, unless this package cannot be imported.
    sys.modules.setdefault("openvino_telemetry", cast("ModuleType", None))
    import openvino

    core = openvino.Core()
    if precision == "bfloat16" and "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        raise EmbedderError("this processor has no bfloat16; set embedder.precision: float32 or int8.")
    converted = openvino.convert_model(transformer, example_input=sample)
    if precision == "int8":
        import nncf

        converted = nncf.compress_weights(converted, mode=nncf.CompressWeightsMode.INT8_SYM)
    hint = "bf16" if precision == "bfloat16" else "f32"
    compiled = core.compile_model(converted, "CPU", {"INFERENCE_PRECISION_HINT": hint})
    output = compiled.output(_OUTPUT)
    return lambda features: compiled(features)[output]


def _onnx(transformer: Any, sample: dict[str, Any]) -> _Run:
    import onnxruntime
    import torch

    free = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        names, shapes = [_OUTPUT], dict.fromkeys(sample, free)
        torch.onnx.export(transformer, (), path, kwargs=sample, dynamic_shapes=shapes, output_names=names, dynamo=True)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda features: session.run(names, features)[0]


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

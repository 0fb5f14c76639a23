"""Bi-encoders as one ONNX file, run by ONNX Runtime."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ..errors import UsageError
from ..models import CLS, Model
from . import batching
from .base import AUTO, Advance, Encoded, Settings
from .devices import CPU
from .loading import loading, require
from .tokens import TextTokenizer, Tokens

_TOKENS, _MOST = 1024, 64


class OnnxEncoder:
    """Encodes with the file `model.onnx` of a folder and the tokenizer of another, on processors.

    The file takes input_ids, attention_mask and token_type_ids, int64 [texts, tokens], and gives a float32
    [texts, tokens, dimensions], which is pooled here.
    """

    device = CPU

    def __init__(self, model: Model, settings: Settings, folder: Path, tokenizer: Path):
        if settings.device not in (AUTO, CPU) or settings.dtype not in (AUTO, model.dtype):
            raise UsageError(
                f"model {model.name} is an ONNX file in {model.dtype}, for processors: no --device, --dtype"
            )
        self.precision = model.dtype
        self._model, self._threads = model, settings.threads
        require("onnxruntime")
        with loading(model.name, folder):
            import onnxruntime
            from transformers import AutoTokenizer

            self._tokenizer = TextTokenizer(AutoTokenizer.from_pretrained(str(tokenizer)), model)
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1  # batches go side by side
            options.log_severity_level = 3
            self._session = onnxruntime.InferenceSession(
                str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
            )
        self._inputs = {entry.name for entry in self._session.get_inputs()}

    def vocabulary(self) -> None:
        """See `Encoder`."""

    def encode(self, texts: Sequence[str], side: str, dataset: str, advance: Advance) -> Encoded:
        """See `Encoder`."""
        import numpy as np

        tokens = self._tokenizer(texts, side, dataset)
        rows = np.empty((len(texts), self._model.dimensions), np.float32)
        work = partial(self._work, tokens, rows)
        batching.run(batching.plan(tokens.lengths, _TOKENS, _MOST), [work] * self._threads, advance)
        return Encoded(rows, tokens.truncated)

    def _work(self, tokens: Tokens, rows, batch: list[int]) -> None:
        import numpy as np

        features = self._tokenizer.pad([tokens.features[position] for position in batch])
        given = {name: tensor.numpy() for name, tensor in features.items() if name in self._inputs}
        states = self._session.run(None, given)[0]
        if self._model.pooling == CLS:
            found = states[:, 0]
        else:
            mask = features["attention_mask"].numpy().astype(np.float32)[:, :, None]
            found = (states * mask).sum(axis=1) / mask.sum(axis=1)
        if self._model.normalize:
            found = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
        rows[batch] = found

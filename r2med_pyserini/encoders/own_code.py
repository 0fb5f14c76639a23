"""Models whose repository brings code that encodes texts by itself: `encode(texts, instruction=, max_length=)`."""

from collections.abc import Sequence
from pathlib import Path

from ..models import Model
from . import batching, devices
from .base import FLOAT32, Advance, Encoded, Settings
from .loading import loading
from .tokens import TextTokenizer

_TOKENS, _MOST = 16_384, 32


class OwnCodeEncoder:
    """Encodes with the code of a model's repository, which the user must have allowed, on the first device.

    The prompt is given to that code as the instruction, which NV-Embed's leaves out of its pooling.
    """

    def __init__(self, model: Model, settings: Settings, folder: Path):
        self._model = model
        self.device = devices.devices(settings.device)[0]
        self.precision = devices.precision(model, settings.dtype, self.device)
        with loading(model.name):
            import torch
            from transformers import AutoModel, AutoTokenizer

            dtype = FLOAT32 if self.device == devices.CPU else self.precision
            found = AutoModel.from_pretrained(str(folder), trust_remote_code=True, dtype=getattr(torch, dtype))
            self._module = found.to(self.device).eval()
            self._tokenizer = TextTokenizer(AutoTokenizer.from_pretrained(str(folder)), model)

    def vocabulary(self) -> None:
        """See `Encoder`."""

    def encode(self, texts: Sequence[str], side: str, dataset: str, advance: Advance) -> Encoded:
        """See `Encoder`."""
        import numpy as np
        import torch

        tokens = self._tokenizer(texts, side, dataset)
        rows = np.empty((len(texts), self._model.dimensions), np.float32)
        how = {"instruction": self._model.prompt(side, dataset)}
        limit = self._tokenizer.limit(side)
        if limit is not None:
            how["max_length"] = limit

        def work(batch: list[int]) -> None:
            with torch.inference_mode():
                found = self._module.encode([texts[position] for position in batch], **how)
                vectors = torch.as_tensor(found).float()
                if self._model.normalize:
                    vectors = torch.nn.functional.normalize(vectors, dim=1)
                rows[batch] = vectors.cpu().numpy()

        batching.run(batching.plan(tokens.lengths, _TOKENS, _MOST), [work], advance)
        return Encoded(rows, tokens.truncated)

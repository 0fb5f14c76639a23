"""Models whose repository brings code that encodes texts by itself: `encode(texts, instruction=, max_length=)`."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ..errors import R2medError
from ..models import Model
from . import batching, devices
from .base import Advance, Encoded, Settings
from .loading import loading
from .machine import Machine
from .tokens import TextTokenizer

_TOKENS, _MOST = 16_384, 32


class OwnCodeEncoder:
    """Encodes with the code of a model's repository, which the user must have allowed.

    Every device has a copy of the model, and does one batch at a time: what the code does side by side is not known.
    The prompt is given to that code as the instruction, which NV-Embed's leaves out of its pooling. Raises R2medError.
    """

    def __init__(self, model: Model, settings: Settings, folder: Path):
        self._model, self._threads = model, settings.threads
        self._machine = Machine(settings, model)
        self.device, self.precision = self._machine.name, self._machine.precision
        with loading(model.name, folder):
            import torch
            from transformers import AutoModel, AutoTokenizer

            where = {"local_files_only": True, "trust_remote_code": True}
            dtype = getattr(torch, self._machine.weights)
            module = AutoModel.from_pretrained(str(folder), dtype=dtype, **where).eval()
            self._tokenizer = TextTokenizer(AutoTokenizer.from_pretrained(str(folder), **where), model)
        self._placed = self._machine.place(module)

    def vocabulary(self) -> None:
        """See `Encoder`."""

    def encode(self, texts: Sequence[str], side: str, dataset: str, advance: Advance) -> Encoded:
        """See `Encoder`."""
        import numpy as np
        import torch

        tokens = self._tokenizer(texts, side, dataset)
        if devices.CPU in self._placed:
            torch.set_num_threads(self._threads)
        rows: list = [None] * len(texts)
        how = {"instruction": self._model.prompt(side, dataset)}
        limit = self._tokenizer.limit(side)
        if limit is not None:
            how["max_length"] = limit

        def work(device: str, batch: list[int]) -> None:
            found = self._vectors(device, [texts[position] for position in batch], how)
            for row, position in enumerate(batch):
                rows[position] = found[row]

        workers = [partial(work, device) for device in self._placed]
        batching.run(batching.plan(tokens.lengths, _TOKENS, _MOST), workers, advance)
        vectors = np.stack(rows) if rows else np.empty((0, self._model.dimensions), np.float32)
        return Encoded(vectors, tokens.truncated)

    def _vectors(self, device: str, texts: list[str], how: dict):
        """What the repository's code makes of some texts, as float32 [texts, dimensions]."""
        import torch

        try:
            with torch.inference_mode(), devices.autocast(self.precision, device):
                vectors = torch.as_tensor(self._placed[device].encode(texts, **how)).float()
        except Exception as error:  # it is not our code, and may raise anything
            if batching.out_of_memory(error):
                raise
            reason = next(iter(str(error).splitlines()), "")
            name = self._model.name
            raise R2medError(f"model {name}: its repository's code failed: {type(error).__name__}: {reason}") from error
        if self._model.normalize:
            vectors = torch.nn.functional.normalize(vectors, dim=1)
        return vectors.cpu().numpy()

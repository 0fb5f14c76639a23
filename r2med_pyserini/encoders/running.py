"""Running the modules of a PyTorch model over many texts."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ..errors import R2medError
from ..models import DOCUMENT, SPARSE, Model
from . import batching, devices
from .base import FLOAT32, Advance, Encoded, Settings
from .tokens import TextTokenizer, Tokens

# Batches on a processor are small: what a batch works on should stay in its cache, and padding costs time.
_TOKENS_CPU, _TOKENS_GPU, _MOST = 1024, 16_384, 256


@dataclass
class Route:
    """What the texts of a side go through: their tokenizer, a module, and how to call it.

    `call` takes the module and the features of a batch, and returns a float32 tensor [texts, dimensions].
    """

    tokenizer: TextTokenizer
    module: object
    call: Callable

    def __post_init__(self) -> None:
        self._replicas: dict[str, object] = {}

    def on(self, device: str):
        """The module on a device, copied there when it is first wanted."""
        if device not in self._replicas:
            first = not self._replicas
            self._replicas[device] = (self.module if first else copy.deepcopy(self.module)).to(device)
        return self._replicas[device]


class TorchEncoder:
    """Encodes with modules of PyTorch.

    On a processor, `Settings.threads` batches are worked on at once, each by one thread, which is faster than many
    threads on one batch, and gives the same bits whatever the number of threads. Several GPUs have a copy each.
    """

    def __init__(self, model: Model, settings: Settings, load: Callable[[str, str], Route]):
        self._model, self._load = model, load
        self._devices = devices.devices(settings.device)
        self.device = ", ".join(self._devices)
        self.precision = devices.precision(model, settings.dtype, self._devices[0])
        self._on_cpu = self._devices[0] == devices.CPU
        self._workers = self._devices * settings.threads if self.device == devices.CPU else self._devices
        self._routes: dict[str, Route] = {}

    def _route(self, side: str) -> Route:
        """What a side goes through. Both sides of a dense model share it, unless queries have a model of their own."""
        apart = self._model.kind == SPARSE or self._model.query_id
        side = side if apart else DOCUMENT
        if side not in self._routes:
            self._routes[side] = self._load(side, FLOAT32 if self._on_cpu else self.precision)
            for device in self._devices:
                self._place(self._routes[side], device)
        return self._routes[side]

    def _place(self, route: Route, device: str) -> None:
        try:
            route.on(device)
        except (RuntimeError, MemoryError) as error:
            if not batching.out_of_memory(error):
                raise
            raise R2medError(f"model {self._model.name} does not fit into the memory of {device}") from error

    def vocabulary(self) -> list[str] | None:
        """See `Encoder`."""
        if self._model.kind != SPARSE:
            return None
        return self._route(DOCUMENT).tokenizer.vocabulary(self._model.dimensions)

    def encode(self, texts: Sequence[str], side: str, dataset: str, advance: Advance) -> Encoded:
        """See `Encoder`."""
        import torch

        if self._on_cpu:
            torch.set_num_threads(1)
        route = self._route(side)
        tokens = route.tokenizer(texts, side, dataset)
        prompt = 0 if self._model.pool_prompt else route.tokenizer.prompt_length(side, dataset)
        rows: list = [None] * len(texts)
        workers = [partial(self._work, route, tokens, prompt, rows, device) for device in self._workers]
        budget = _TOKENS_CPU if self._on_cpu else _TOKENS_GPU
        batching.run(batching.plan(tokens.lengths, budget, _MOST), workers, advance)
        return Encoded(self._together(rows), tokens.truncated)

    def _work(self, route: Route, tokens: Tokens, prompt: int, rows: list, device: str, batch: list[int]) -> None:
        """Encode one batch, and put its vectors into `rows`."""
        import torch

        features = route.tokenizer.pad([tokens.features[position] for position in batch])
        features = {name: tensor.to(device) for name, tensor in features.items()}
        if prompt:
            features["prompt_length"] = prompt
        with torch.inference_mode(), devices.autocast(self.precision, device):
            found = route.call(route.on(device), features).float().cpu().numpy()
        if self._model.kind == SPARSE:
            from scipy.sparse import csr_matrix

            found = csr_matrix(found)
        for row, position in enumerate(batch):
            rows[position] = found[row]

    def _together(self, rows: list):
        import numpy as np

        if self._model.kind != SPARSE:
            return np.stack(rows) if rows else np.empty((0, self._model.dimensions), np.float32)
        from scipy.sparse import csr_matrix, vstack

        return vstack(rows, format="csr") if rows else csr_matrix((0, self._model.dimensions), dtype=np.float32)

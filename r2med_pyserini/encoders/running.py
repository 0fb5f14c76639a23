"""Running the modules of a PyTorch model over many texts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ..models import DOCUMENT, SPARSE, Model
from . import batching
from .base import Advance, Encoded, Settings
from .machine import MOST, Machine
from .tokens import TextTokenizer, Tokens


@dataclass(frozen=True)
class Route:
    """What the texts of a side go through: their tokenizer, a module, and how to call it.

    `call` takes the module and the features of a batch, and returns a float32 tensor [texts, dimensions].
    """

    tokenizer: TextTokenizer
    module: object
    call: Callable


class TorchEncoder:
    """Encodes with modules of PyTorch; see `Machine` for how batches are worked on."""

    def __init__(self, model: Model, settings: Settings, load: Callable[[str, str], Route]):
        self._model, self._load = model, load
        self._machine = Machine(settings, model)
        self.device, self.precision = self._machine.name, self._machine.precision
        self._routes: dict[str, tuple[Route, dict[str, object]]] = {}

    def _route(self, side: str) -> tuple[Route, dict[str, object]]:
        """What a side goes through, and its module on every device.

        Both sides of a dense model share it, unless queries have a model of their own.
        """
        apart = self._model.kind == SPARSE or self._model.query_id
        side = side if apart else DOCUMENT
        if side not in self._routes:
            route = self._load(side, self._machine.weights)
            self._routes[side] = route, self._machine.place(route.module)
        return self._routes[side]

    def vocabulary(self) -> list[str] | None:
        """See `Encoder`."""
        if self._model.kind != SPARSE:
            return None
        return self._route(DOCUMENT)[0].tokenizer.vocabulary(self._model.dimensions)

    def encode(self, texts: Sequence[str], side: str, dataset: str, advance: Advance) -> Encoded:
        """See `Encoder`."""
        self._machine.begin()
        route, placed = self._route(side)
        tokens = route.tokenizer(texts, side, dataset)
        prompt = 0 if self._model.pool_prompt else route.tokenizer.prompt_length(side, dataset)
        rows: list = [None] * len(texts)
        work = partial(self._work, route, placed, tokens, prompt, rows)
        workers = [partial(work, device) for device in self._machine.workers]
        batching.run(batching.plan(tokens.lengths, self._machine.tokens, MOST), workers, advance)
        return Encoded(self._together(rows), tokens.truncated)

    def _work(
        self,
        route: Route,
        placed: dict[str, object],
        tokens: Tokens,
        prompt: int,
        rows: list,
        device: str,
        batch: list[int],
    ) -> None:
        """Encode one batch, and put its vectors into `rows`."""
        import torch

        features = route.tokenizer.pad([tokens.features[position] for position in batch])
        features = {name: tensor.to(device) for name, tensor in features.items()}
        if prompt:
            features["prompt_length"] = prompt
        with torch.inference_mode(), self._machine.autocast(device):
            found = route.call(placed[device], features).float().cpu().numpy()
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

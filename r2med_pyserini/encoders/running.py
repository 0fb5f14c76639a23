"""Running the modules of a PyTorch model over many texts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ..models import DOCUMENT, SIDES, SPARSE, Model
from . import batching
from .base import Advance, Encoded, Settings
from .machine import MOST, Machine
from .tokens import TextTokenizer, Tokens


@dataclass(frozen=True)
class Route:
    """What the texts of a side go through: their tokenizer, a module, and how to call it.

    `call` takes the module and the features of a batch, and returns a float32 tensor [texts, dimensions]. What is
    `shared` serves the other side too, if that has no files of its own.
    """

    tokenizer: TextTokenizer
    module: object
    call: Callable
    shared: bool = True


class TorchEncoder:
    """Encodes with modules of PyTorch; see `Machine` for how batches are worked on."""

    def __init__(self, model: Model, settings: Settings, load: Callable[[str, str], Route]):
        self._model, self._load = model, load
        self._machine = Machine(settings, model)
        self.device, self.precision = self._machine.name, self._machine.precision
        self._routes: dict[str, tuple[Route, dict[str, object]]] = {}

    def _route(self, side: str) -> tuple[Route, dict[str, object]]:
        """What a side goes through, and its module on every device; loaded once where it serves both sides."""
        if side not in self._routes:
            route = self._load(side, self._machine.weights)
            found = route, self._machine.place(route.module)
            self._routes |= dict.fromkeys(SIDES if route.shared and not self._model.query_id else (side,), found)
        return self._routes[side]

    def vocabulary(self) -> list[str] | None:
        """See `Encoder`."""
        if self._model.kind != SPARSE:
            return None
        side = next(iter(self._routes), DOCUMENT)  # dimensions are the same on both: load none for their names
        return self._route(side)[0].tokenizer.vocabulary(self._model.dimensions)

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
        features = route.tokenizer.pad([tokens.features[position] for position in batch])
        with self._machine.working(device):
            features = {name: tensor.to(device) for name, tensor in features.items()}
            if prompt:
                features["prompt_length"] = prompt
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

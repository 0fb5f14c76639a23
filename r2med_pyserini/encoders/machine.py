"""The devices that a model of PyTorch is put on, and how work is parted among them."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import R2medError
from . import batching, devices
from .base import FLOAT32, Settings

# Batches on a processor are small: what a batch works on should stay in its cache, and padding costs time.
_TOKENS_CPU, _TOKENS_GPU, MOST = 512, 16_384, 256


class Machine:
    """Where and in which precision a model runs.

    On a processor `Settings.threads` batches are worked on at once, each by one thread, which is faster than many
    threads on one batch, and gives the same bits whatever the number of threads. Several GPUs have a copy each.

    `workers` has the device of every worker, `weights` is the precision to load weights in, and `tokens` how many
    tokens a batch should have.
    """

    def __init__(self, settings: Settings, model):
        self.devices = devices.devices(settings.device)
        self.name = ", ".join(self.devices)
        self.precision = devices.precision(model, settings.dtype, self.devices[0])
        on_cpu = self.devices[0] == devices.CPU
        self.workers = self.devices * settings.threads if on_cpu else self.devices
        self.weights = FLOAT32 if on_cpu else self.precision
        self.tokens = _TOKENS_CPU if on_cpu else _TOKENS_GPU
        self._on_cpu, self._model = on_cpu, model.name

    def place(self, module) -> dict[str, object]:
        """A module on every device. Raises R2medError if a device has too little memory, or does not take it."""
        placed: dict[str, object] = {}
        for device in self.devices:
            try:
                placed[device] = (copy.deepcopy(module) if placed else module).to(device)
            except (RuntimeError, MemoryError) as error:
                if not batching.out_of_memory(error):
                    raise self._failed(device, error) from error
                raise R2medError(f"model {self._model} does not fit into the memory of {device}") from error
        return placed

    def begin(self) -> None:
        """To be called before work is given to the workers."""
        import torch

        if self._on_cpu:
            torch.set_num_threads(1)

    @contextmanager
    def working(self, device: str) -> Iterator[None]:
        """Around a model's work on a device, without gradients and in the machine's precision.

        Raises R2medError where PyTorch fails; but that there is too little memory is for `batching.run` to see.
        """
        import torch

        try:
            with torch.inference_mode(), devices.autocast(self.precision, device):
                yield
        except RuntimeError as error:
            if batching.out_of_memory(error):
                raise
            raise self._failed(device, error) from error

    def _failed(self, device: str, error: Exception) -> R2medError:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        return R2medError(f"model {self._model} failed on {device}: {reason}")

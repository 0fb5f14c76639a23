"""The devices that a model of PyTorch is put on, and how work is parted among them."""

import copy

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
        """A module on every device. Raises R2medError if there is too little memory."""
        placed: dict[str, object] = {}
        for device in self.devices:
            try:
                placed[device] = (copy.deepcopy(module) if placed else module).to(device)
            except (RuntimeError, MemoryError) as error:
                if not batching.out_of_memory(error):
                    raise
                raise R2medError(f"model {self._model} does not fit into the memory of {device}") from error
        return placed

    def begin(self) -> None:
        """To be called before work is given to the workers."""
        import torch

        if self._on_cpu:
            torch.set_num_threads(1)

    def autocast(self, device: str):
        """Around a model's work: see `devices.autocast`."""
        return devices.autocast(self.precision, device)

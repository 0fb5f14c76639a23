"""Where a model is run, and in which precision."""

from ..errors import UsageError
from ..models import Model
from .base import AUTO, BFLOAT16, FLOAT16, FLOAT32

CPU = "cpu"


def devices(wanted: str) -> list[str]:
    """The names of PyTorch's devices that `Settings.device` stands for. Raises UsageError for one that is not here."""
    import torch

    if wanted == AUTO:
        if torch.cuda.is_available():
            return [f"cuda:{number}" for number in range(torch.cuda.device_count())]
        return ["mps" if torch.backends.mps.is_available() else CPU]
    found = [name.strip() for name in wanted.split(",")]
    for name in found:
        try:
            torch.zeros(1, device=name)
        except (RuntimeError, AssertionError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise UsageError(f"--device {name}: not on this machine ({reason}); cpu always is") from error
    return found


def precision(model: Model, wanted: str, device: str) -> str:
    """What a model computes in: by default its half precision on a GPU, float32 elsewhere."""
    if wanted != AUTO:
        return wanted
    if device == CPU:
        return FLOAT32
    return model.dtype if model.dtype in (FLOAT16, BFLOAT16) else model.half

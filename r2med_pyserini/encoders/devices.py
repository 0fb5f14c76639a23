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
    found = []
    for name in map(str.strip, wanted.split(",")):
        try:
            torch.zeros(1, device=name).cpu()  # the device "meta" would take all and give nothing back
        except Exception as error:  # each of PyTorch's devices says in its own way that it is not there
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise UsageError(f"--device {name}: not on this machine ({reason}); cpu always is") from error
        found.append(CPU if torch.device(name).type == CPU else name)
    found = list(dict.fromkeys(found))
    if CPU in found and len(found) > 1:
        raise UsageError(f"--device {wanted}: processors and other devices do not work side by side")
    return found


def precision(model: Model, wanted: str, device: str) -> str:
    """What a model computes in: by default its half precision on a GPU, float32 elsewhere."""
    if wanted != AUTO:
        return wanted
    if device == CPU:
        return FLOAT32
    return model.dtype if model.dtype in (FLOAT16, BFLOAT16) else model.half


def autocast(precision: str, device: str):
    """Around a model's work: on processors its weights stay in float32, and half precision is a matter of each step."""
    import torch

    return torch.autocast("cpu", getattr(torch, precision), enabled=device == CPU and precision != FLOAT32)

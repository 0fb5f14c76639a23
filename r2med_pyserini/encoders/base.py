"""What an encoder is asked for, and what it gives back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import scipy.sparse

AUTO = "auto"
FLOAT32, FLOAT16, BFLOAT16 = "float32", "float16", "bfloat16"
PRECISIONS = (AUTO, FLOAT32, BFLOAT16, FLOAT16)

Advance = Callable[[int], None]


@dataclass(frozen=True)
class Settings:
    """How models are run.

    `device` is AUTO (every CUDA device, else Apple's MPS, else the processors) or the names that PyTorch has for
    devices, parted by commas. `dtype` is one of PRECISIONS; AUTO means half precision on a GPU and float32 elsewhere.
    `threads` is how many processors are used where there is no GPU.
    """

    device: str = AUTO
    dtype: str = AUTO
    threads: int = 1
    trust_remote_code: bool = False


@dataclass(frozen=True)
class Encoded:
    """Vectors of some texts, in their order: float32 [texts, dimensions]; and how many of the texts were cut."""

    vectors: "np.ndarray | scipy.sparse.csr_matrix"
    truncated: int


class Encoder(Protocol):
    """A model that is ready to encode. `precision` is what it computes in, `device` where; for records and keys."""

    precision: str
    device: str

    def encode(self, texts: Sequence[str], side: str, dataset: str, advance: Advance) -> Encoded:
        """Vectors of bare texts, which get the model's prompt for `side` and `dataset`.

        `advance` is told, as work goes on, how many more texts are done. Raises R2medError.
        """

    def vocabulary(self) -> list[str] | None:
        """The token of every dimension, for a sparse encoder; None for a dense one."""

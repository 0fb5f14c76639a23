"""A server of embeddings on this machine that speaks OpenAI's protocol, and misbehaves as it is told.

The vector of a text is computed from the text alone (`vector`), so that a test sees whether one came back in another's
place.
"""

import hashlib
import struct

from .scripted_server import WAIT_S, Fault, Request, ScriptedServer

__all__ = ["WAIT_S", "EmbeddingsServer", "Fault", "vector"]


def vector(text: str, dimensions: int) -> list[float]:
    """Numbers between -1 and 1 that single precision holds exactly."""
    packed = hashlib.shake_256(text.encode()).digest(2 * dimensions)
    return [number / 2**15 for number in struct.unpack(f"<{dimensions}h", packed)]


class EmbeddingsServer(ScriptedServer):
    """Answers with the vector of every text."""

    def __init__(self, dimensions: int = 8):
        super().__init__()
        self.dimensions = dimensions

    def texts(self) -> list[str]:
        """All texts that have arrived."""
        return [text for request in self.requests for text in request.body["input"]]

    def is_about(self, request: Request, text: str) -> bool:
        """Whether a text is among those of a request."""
        return text in request.body["input"]

    def answer(self, request: Request) -> object:
        """The vectors, by OpenAI's protocol."""
        data = [
            {"object": "embedding", "index": index, "embedding": vector(text, self.dimensions)}
            for index, text in enumerate(request.body["input"])
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return self.alter({"object": "list", "data": data, "model": request.body["model"], "usage": usage})

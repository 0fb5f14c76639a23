"""What plain tokenizers and transformers make of a text, for comparison."""

from pathlib import Path

import numpy as np
import tokenizers


class Plain:
    """A model by the plain means of tokenizers and transformers: one text at a time, no padding, eager attention."""

    def __init__(self, folder: Path, made: str = "AutoModel"):
        import torch
        import transformers

        self.tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_truncation()
        network = getattr(transformers, made)
        self._network = network.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()

    def ids(self, text: str) -> list[int]:
        """The numbers that tokenizer.json gives a text, special tokens included."""
        return self.tokenizer.encode(text).ids

    def number(self, token: str) -> int:
        """The number of a token."""
        return self.tokenizer.token_to_id(token)

    def states(
        self, ids: list[int], both_ways: bool = False, output: str = "last_hidden_state", **more: list[int]
    ) -> np.ndarray:
        """The last layer's states [tokens, dimensions]; a decoder's without the causal mask if `both_ways`."""
        import torch

        features = {name: torch.tensor([values]) for name, values in more.items()}
        if both_ways:
            features["attention_mask"] = torch.zeros(1, 1, len(ids), len(ids))  # added to the attention's scores
        with torch.inference_mode():
            return self._network(torch.tensor([ids]), **features)[output][0].numpy()

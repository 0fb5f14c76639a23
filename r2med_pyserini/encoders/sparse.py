"""Learned sparse encoders through sentence-transformers' SparseEncoder: SPLADE, and inference-free ones."""

from pathlib import Path

from ..models import Model
from .loading import check_vocabulary, loading, require
from .running import Route
from .tokens import TextTokenizer

_SLICE = 1024  # of the vocabulary


def load(model: Model, folder: Path, dtype: str, side: str) -> Route:
    """The modules of a model that encode one side, with weights in `dtype`. Raises R2medError."""
    require("sentence_transformers")
    with loading(model.name, folder):
        from sentence_transformers import SparseEncoder
        from sentence_transformers.base.modules import Router
        from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding
        from torch.nn import Sequential

        found = SparseEncoder(str(folder), device="cpu", local_files_only=True, model_kwargs={"dtype": dtype})
    limit = found.max_seq_length
    first = found[0]
    apart = isinstance(first, Router)  # it has a way for queries and one for documents
    module = Sequential(*first.sub_modules[side], *list(found)[1:]) if apart else found
    module.eval()
    static = isinstance(module[0], SparseStaticEmbedding)  # a table of weights, which knows no start and end tokens
    if not static:
        check_vocabulary(model.name, folder, module[0].tokenizer, module[0].model)
        if _takes_largest(module):
            _set_aside(module[0].model)
    tokenizer = TextTokenizer(module[0].tokenizer, model, None if static else limit, special=not static)
    return Route(tokenizer, module, _weights, shared=not apart)


def _takes_largest(module) -> bool:
    """Whether what follows the network is SPLADE's maximum, and nothing else."""
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    rest = list(module)[1:]
    return len(rest) == 1 and isinstance(rest[0], SpladePooling) and rest[0].pooling_strategy == "max"


def _set_aside(network) -> None:
    """Let a masked language model end before its last layer, which is kept in its place for `_largest_logits`."""
    from torch.nn import Linear, Module

    last = network.get_output_embeddings()
    if not isinstance(last, Linear):
        return

    class Aside(Module):
        """Does nothing; holds the layer whose place it has."""

        def __init__(self) -> None:
            super().__init__()
            self.layer, self.bias = last, last.bias

        def forward(self, states):
            """What comes in."""
            return states

    network.set_output_embeddings(Aside())


def _largest_logits(body, features: dict):
    """The largest logit of every token over the positions of a text, [texts, vocabulary], or 0 if none is positive.

    The logits of a text, positions times vocabulary, are far more than a processor's cache holds; so they are computed
    and forgotten for a slice of the vocabulary at a time.
    """
    import torch

    states = body(features)["token_embeddings"]
    padding = ~features["attention_mask"].bool().unsqueeze(-1)
    padded = bool(padding.any())
    layer = getattr(body.model.get_output_embeddings(), "layer", None)
    if layer is None:
        slices = [states]
    else:
        weights = layer.weight.split(_SLICE)
        biases = [None] * len(weights) if layer.bias is None else layer.bias.split(_SLICE)
        slices = (torch.nn.functional.linear(states, *some) for some in zip(weights, biases, strict=True))
    found = [(logits.masked_fill(padding, 0) if padded else logits).amax(dim=1) for logits in slices]
    return torch.cat(found, dim=-1)


def _weights(module, features: dict):
    """Weights of one batch, float32 [texts, vocabulary].

    SPLADE's weight of a token is the largest log(1 + relu(logit)) over the text's positions
    (https://arxiv.org/abs/2109.10086). As the logarithm grows with the logit, the largest logit is found first: the
    same weights, without the logarithm of every logit.
    """
    import torch

    if not _takes_largest(module):
        return module(features)["sentence_embedding"].float()
    body, pooling = module
    weights = torch.log1p(torch.relu(_largest_logits(body, features).float()))
    return torch.log1p(weights) if pooling.activation_function == "log1p_relu" else weights

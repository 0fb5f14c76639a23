"""Learned sparse encoders through sentence-transformers' SparseEncoder: SPLADE, and inference-free ones."""

from pathlib import Path

from ..models import Model
from .loading import check_vocabulary, loading, require
from .running import Route
from .tokens import TextTokenizer


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
    module = Sequential(*first.sub_modules[side], *list(found)[1:]) if isinstance(first, Router) else found
    module.eval()
    static = isinstance(module[0], SparseStaticEmbedding)  # a table of weights, which knows no start and end tokens
    if not static:
        check_vocabulary(model.name, folder, module[0].tokenizer, module[0].model)
    tokenizer = TextTokenizer(module[0].tokenizer, model, None if static else limit, special=not static)
    return Route(tokenizer, module, _weights)


def _weights(module, features: dict):
    """Weights of one batch, float32 [texts, vocabulary].

    SPLADE's weight of a token is the largest log(1 + relu(logit)) over the text's positions
    (https://arxiv.org/abs/2109.10086). As the logarithm grows with the logit, the largest logit is found first: the
    same weights, without the logarithm of every logit.
    """
    import torch
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    body, *rest = module
    pooling = rest[0] if len(rest) == 1 and isinstance(rest[0], SpladePooling) else None
    if pooling is None or pooling.pooling_strategy != "max":
        return module(features)["sentence_embedding"].float()
    logits, mask = body(features)["token_embeddings"], features["attention_mask"]
    if not mask.all():
        logits = logits.masked_fill(~mask.bool().unsqueeze(-1), 0)  # as good as absent: relu makes no more of it
    weights = torch.log1p(torch.relu(logits.amax(dim=1).float()))
    return torch.log1p(weights) if pooling.activation_function == "log1p_relu" else weights

"""Bi-encoders through sentence-transformers: its own folders, and transformers' with the pooling that the facts say."""

from pathlib import Path

from ..errors import R2medError
from ..models import CLS, LAST, MEAN, OWN, SENTENCE_TRANSFORMERS, Model
from .loading import check_vocabulary, loading, require
from .running import Route
from .tokens import TextTokenizer

_POOLING = {MEAN: "mean", CLS: "cls", LAST: "lasttoken"}


def load(model: Model, folder: Path, dtype: str, trust_remote_code: bool) -> Route:
    """The modules of a model whose files are in `folder`, with weights in `dtype`. Raises R2medError."""
    require("sentence_transformers")
    with loading(model.name, folder):
        from sentence_transformers import SentenceTransformer

        if model.loader == SENTENCE_TRANSFORMERS:
            where = {"local_files_only": True, "trust_remote_code": trust_remote_code}
            found = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": dtype}, **where)
        else:
            found = SentenceTransformer(modules=_modules(model, folder, dtype, trust_remote_code), device="cpu")
    _check_pooling(model, found)
    check_vocabulary(model.name, folder, found.tokenizer, found[0].model)
    if not model.pool_prompt:
        found.set_pooling_include_prompt(False)
    if model.bidirectional:
        _see_both_ways(found)
    for module in list(found)[1:]:
        module.float()
    found.eval()
    tokenizer = TextTokenizer(found.tokenizer, model, found.max_seq_length)
    return Route(tokenizer, found, lambda module, features: _vectors(module, features, model.normalize))


def _modules(model: Model, folder: Path, dtype: str, trust_remote_code: bool) -> list:
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    where = {"local_files_only": True, "trust_remote_code": trust_remote_code}
    body = Transformer(
        str(folder), model_kwargs={"dtype": dtype, **where}, processor_kwargs=dict(where), config_kwargs=dict(where)
    )
    return [body, Pooling(body.get_embedding_dimension(), pooling_mode=_POOLING[model.pooling])]


def _check_pooling(model: Model, found) -> None:
    """The facts and the files must tell the same of pooling, or one of them is wrong."""
    from sentence_transformers.sentence_transformer.modules import Pooling

    modes = [module.pooling_mode for module in found if isinstance(module, Pooling)]
    if model.pooling != OWN and modes != [_POOLING[model.pooling]]:
        raise R2medError(f"model {model.name}: models.yaml says pooling {model.pooling}, its files say {modes}")


def _see_both_ways(found) -> None:
    """Run a decoder without its causal mask.

    transformers builds the mask by the configuration; in some versions attention without any padding goes by the flag
    of each layer.
    """
    found[0].model.config.is_causal = False
    for module in found.modules():
        if hasattr(module, "is_causal"):
            module.is_causal = False


def _vectors(module, features: dict, normalize: bool):
    """Vectors of one batch, float32: pooled in float32 whatever the model computes in."""
    import torch

    body, *rest = module
    features = body(features)
    with torch.autocast(features["token_embeddings"].device.type, enabled=False):
        features["token_embeddings"] = features["token_embeddings"].float()
        for part in rest:
            features = part(features)
        vectors = features["sentence_embedding"]
        return torch.nn.functional.normalize(vectors, dim=1) if normalize else vectors

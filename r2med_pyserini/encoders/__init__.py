"""Texts -> vectors: one way to ask, whatever runs the model."""

from functools import partial

from .. import models, weights
from ..errors import UsageError
from ..models import API, DOCUMENT, ONNX, OWN_CODE, SPARSE, Model
from .base import AUTO, Encoder, Settings
from .holding import Last
from .loading import require


def check(model: Model, settings: Settings) -> None:
    """Raise UsageError if a model must not be run as `settings` say."""
    if model.remote_code and not settings.trust_remote_code:
        raise UsageError(
            f"model {model.name} runs code that its repository {model.id} brings, with all rights of yours: "
            f"look at it (https://huggingface.co/{model.id}/tree/{model.revision}), then say --trust-remote-code"
        )


def check_device(settings: Settings) -> None:
    """Raise UsageError if a device is named that is not here."""
    if settings.device != AUTO:
        require("torch")
        from . import devices

        devices.devices(settings.device)


def precision(model: Model, settings: Settings) -> str:
    """What a model would compute in. Raises UsageError for a device that is not here."""
    if model.loader in (API, ONNX):
        return model.dtype or API
    require("torch")
    from . import devices

    return devices.precision(model, settings.dtype, devices.devices(settings.device)[0])


def load(model: Model, settings: Settings) -> Encoder:
    """A model, ready to encode; its files are fetched if need be. Raises R2medError."""
    check(model, settings)
    if model.loader == API:
        from .api import ApiEncoder

        return ApiEncoder(model)
    require("torch")
    folder = weights.folder(model, DOCUMENT)
    if model.loader == ONNX:
        from .onnx import OnnxEncoder

        return OnnxEncoder(model, settings, folder, weights.folder(models.load(model.tokenizer), DOCUMENT))
    if model.loader == OWN_CODE:
        from .own_code import OwnCodeEncoder

        return OwnCodeEncoder(model, settings, folder)
    from .running import TorchEncoder

    return TorchEncoder(model, settings, partial(_route, model, settings))


def _route(model: Model, settings: Settings, side: str, dtype: str):
    """What one side of a model goes through; both sides share it where they can."""
    folder = weights.folder(model, side)
    if model.kind == SPARSE:
        from . import sparse

        return sparse.load(model, folder, dtype, side)
    from . import dense

    return dense.load(model, folder, dtype, model.remote_code and settings.trust_remote_code)


class Encoders(Last[Model, Encoder]):
    """Encoders by model, run as `settings` say."""

    def __init__(self, settings: Settings):
        super().__init__(lambda model: load(model, settings))
        self.settings = settings

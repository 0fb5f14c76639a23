"""What a command hands to the command line to be printed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .errors import R2medError
from .stages import Progress, Stage

Observer = Callable[[Progress], None]


@dataclass(frozen=True)
class Outcome:
    """What a command has to say. Not `good`: exit status 1."""

    text: str = ""
    good: bool = True
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def messages(failed: Mapping[Stage, R2medError]) -> list[str]:
    """What went wrong in the stages of a plan, every message once."""
    return list(dict.fromkeys(map(str, failed.values())))

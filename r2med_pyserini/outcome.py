"""What a command hands to the command line to be printed."""

from collections.abc import Callable
from dataclasses import dataclass, field

from .stages import Progress, Result

Observer = Callable[[Progress], None]


@dataclass(frozen=True)
class Outcome:
    """What a command has to say. Errors, or a verdict that is not `good`: exit status 1."""

    text: str = ""
    good: bool = True
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def messages(result: Result) -> list[str]:
    """What went wrong in the stages of a plan, every message once."""
    return list(dict.fromkeys(map(str, result.failed.values())))

"""What a command hands to the command line to be printed."""

from collections.abc import Callable
from dataclasses import dataclass, field

from .stages import Progress

Observer = Callable[[Progress], None]


@dataclass(frozen=True)
class Outcome:
    """What a command has to say. Not `good`: exit status 1."""

    text: str = ""
    good: bool = True
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

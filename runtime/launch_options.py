"""How a network is launched, as users say it. The command line has its words from here: nothing heavy is imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Per = Literal["network", "layer"]
Form = Literal["quickest", "direct"]


@dataclass(frozen=True)
class LaunchOptions:
    """How a network is launched: per "network", in as few launches as have at most so many `instructions` each, or per
    "layer". In the `form` "quickest", 3x3 filters are combined where that is predicted to be quicker
    (docs/convolutions.md); in "direct", nowhere.
    """

    per: Per = "network"
    instructions: int = 50_000  # of a launch, all of which are unrolled
    form: Form = "quickest"


DEFAULT_LAUNCHES = LaunchOptions()

"""Launches on several ranks: NeuronCores of one simulated chip that communicate by collectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..checking.sanitizing import choice, chosen, findings_of, look_for
from ..instructions.core import NeuronCore
from ..machine.chip import find_target
from ..machine.errors import NkiValidationError
from ..machine.host import one_thread
from ..machine.pair import CORES
from ..machine.world import MOST_RANKS, World
from .kernel import Kernel, degree, execute, predict
from .run import Run


def run_ranks(
    kernel: Callable[..., Any],
    arrays: Sequence[Sequence[Any]],
    target: str = "trn2",
    sanitize: bool | str = False,
    **parameters: Any,
) -> list[Run]:
    """Run a kernel on as many ranks as there are lists of arguments, each a NeuronCore; return each rank's run.

    The kernel's collectives (nki.collectives) exchange values between ranks. Collectives and waiting for other ranks
    take no time: each rank's time is that of its own instructions. `sanitize` as in `run`.

    Raises:
        NkiValidationError: what `run` raises; more than MOST_RANKS ranks, ranks of two cores, ranks that come with
            different collectives, or that wait for one another without end.
    """
    found = find_target(target)
    if not 1 <= len(arrays) <= MOST_RANKS:
        raise NkiValidationError(f"{len(arrays)} ranks; allowed: 1 to {MOST_RANKS}, a list of arguments for each")
    if degree(kernel if isinstance(kernel, Kernel) else Kernel(kernel)) == CORES:
        raise NkiValidationError("ranks of two cores each are not simulated; launch the kernel on one")
    world = World(len(arrays))
    kinds = choice(sanitize) or chosen()
    name = getattr(kernel, "__name__", "kernel")

    def on_rank(rank: int) -> Run:
        core = NeuronCore(found)
        core.world, core.world_rank = world, rank
        look_for(core, kinds)
        returned = execute(core, kernel, tuple(arrays[rank]), parameters)
        outputs = tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)
        return Run(predict(core), outputs, name, False, findings_of(core))

    with one_thread():
        return world.run(on_rank)

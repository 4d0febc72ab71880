"""Launch kernels on several ranks, which are NeuronCores of one simulated chip that communicate through collectives."""

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
    """Run a kernel on one rank (a NeuronCore) for each list of arguments, and return the run of each rank.

    The kernel's collectives (nki.collectives) exchange values between ranks. Collectives and waits for other ranks take
    no time: the time of a rank includes only its local instructions. For `sanitize`, see `run`.

    Raises:
        NkiValidationError: for the same reasons as in `run`, or if there are more than MOST_RANKS ranks, if a rank has
            two cores, or if the ranks execute different collectives or deadlock.
    """
    resolved = find_target(target)
    if not 1 <= len(arrays) <= MOST_RANKS:
        raise NkiValidationError(
            f"the number of ranks must be between 1 and {MOST_RANKS}, with a list of arguments "
            f"for each, got {len(arrays)}"
        )
    if degree(kernel if isinstance(kernel, Kernel) else Kernel(kernel)) == CORES:
        raise NkiValidationError("ranks that consist of two cores are not simulated; launch the kernel on one core")
    world = World(len(arrays))
    kinds = choice(sanitize) or chosen()
    name = getattr(kernel, "__name__", "kernel")

    def on_rank(rank: int) -> Run:
        core = NeuronCore(resolved)
        core.world, core.world_rank = world, rank
        look_for(core, kinds)
        returned = execute(core, kernel, tuple(arrays[rank]), parameters)
        outputs = tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)
        return Run(predict(core), outputs, name, False, findings_of(core))

    with one_thread():
        return world.run(on_rank)

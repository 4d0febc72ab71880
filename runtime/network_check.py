"""Test a network on the simulator before its file is written: plan it with 32-bit and 16-bit values, and run batches.

The scores before a final softmax are compared with those of the golden model, since saturated probabilities would hide
differences.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..models.before_answers import squeezed_outputs, without_squeezing
from ..models.errors import ModelError
from ..models.files import Model
from ..models.layers import Softmax
from ..models.network import Network
from ..models.outputs import Output
from .backend import DEFAULT_TARGET, DTYPES, Backend, KernelError
from .choose import choose_backend
from .session import OverflowedError, Session
from .verify import Verification, Verifier, merge

MOST = 1e-3  # maximum accepted difference, as a fraction of the largest output
PLANNED = (1, 2)  # batch sizes that are planned in each dtype

# The batch sizes to run, each with the maximum number of multiply-accumulates per example. Larger networks are not run.
BATCHES = (((1, 3, 16), 1 << 31), ((1, 3), 1 << 33), ((1,), 1 << 35))


@dataclass(frozen=True)
class NetworkCheck:
    """The sizes of the batches that were run, and the comparison with the golden model, which is None if nothing was
    run."""

    batches: tuple[int, ...]
    verification: Verification | None

    @property
    def passed(self) -> bool:
        """True if the comparison passed or nothing was run."""
        return self.verification is None or self.verification.passed


def check_network(model: Model, sensitivity: float = 0.0) -> NetworkCheck:
    """Run batches of random examples in float32, and plan the network with 32-bit and 16-bit values.

    `sensitivity` is the difference, as a fraction of the largest output, between two computations in float32 that are
    known to be correct. Differences of up to three times this value are accepted, unless they exceed MOST.

    Raises ModelError, with a one-line message, if the network cannot be planned or run.
    """
    for batch in PLANNED:
        _plan(model, "float32", batch)
    batches = batches_of(model.network)
    scores = before_softmax(model)
    least = min(MOST, 3 * sensitivity)
    verdicts = [_run(scores, batch, least) for batch in batches]
    for dtype in DTYPES:
        if dtype != "float32":  # planned after the run, which needs the most memory, because plans are cached
            for batch in PLANNED:
                _plan(model, dtype, batch)
    return NetworkCheck(batches, merge(verdicts) if verdicts else None)


def batches_of(network: Network) -> tuple[int, ...]:
    """Return the batch sizes to run for a network of this size."""
    work = _work(network)
    return next((batches for batches, most in BATCHES if work <= most), ())


def before_softmax(model: Model) -> Model:
    """Return the network without final softmaxes and other saturating functions; its scores become values.

    A network whose output is a class map is unchanged; its classes are compared by their scores.
    """
    if model.network.output.kind == "map":
        return model
    network = without_squeezing(model.network, squeezed_outputs(model.network))
    cut = {layer.name: layer.inputs[0] for layer in network.layers if isinstance(layer, Softmax)}
    readers = network.readers()
    cut = {name: source for name, source in cut.items() if readers[source] == 1 and source in _names(network)}
    last = cut.get(network.layers[-1].name, network.layers[-1].name)
    remaining = [layer for layer in network.layers if layer.name not in cut and layer.name != last]
    layers = (*remaining, next(layer for layer in network.layers if layer.name == last))
    others = tuple(
        replace(other, layer=cut.get(other.layer, other.layer), output=Output("values"), labels=())
        for other in network.others
    )
    scores = replace(network, layers=layers, labels=(), output=Output("values"), others=others)
    return Model(scores, model.tensors, model.metadata)


def _names(network: Network) -> set[str]:
    return {layer.name for layer in network.layers}


def _plan(model: Model, dtype: str, batch: int) -> None:
    """Simulate the launches of a batch from shapes only."""
    where = f"the network cannot run in {dtype} in batches of {batch}"
    try:
        Session(model, _simulator(), dtype, batch).time(batch)
    except (KernelError, ValueError) as error:
        reason = " ".join(str(error).split()).removeprefix(f"in {dtype}, ")
        raise ModelError(f"{where}: {reason}") from None
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ModelError(f"{where} ({reason}), which is a bug in trninfer; please report it") from None


def _run(model: Model, batch: int, least: float) -> Verification:
    x = np.random.default_rng(batch).standard_normal((batch, *model.network.input.shape), np.float32)
    try:
        result = Session(model, _simulator(), "float32", batch).run(x)
    except OverflowedError as error:
        raise ModelError(f"cannot run the network on random inputs (batch size {batch}): {error}") from None
    verifier = Verifier(model, "float32", least=least)
    verifier.check(x, result.classes, result.probabilities)
    return verifier.verdict


def _simulator() -> Backend:
    return choose_backend("sim", DEFAULT_TARGET)


def _work(network: Network) -> int:
    shapes = network.shapes()
    return sum(layer.multiply_accumulates(*(shapes[read] for read in layer.inputs)) for layer in network.layers)

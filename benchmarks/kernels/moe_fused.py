"""A whole MoE block for one token on two cores, in bfloat16: the loops and instructions of the measured rows o27 to
o33.

Each core computes half of the columns of the output for all eight experts that the router chose. The cores do not
communicate. The address of an expert's weights is known only at run time. The versions differ in the number of experts
loaded together, in the number of buffers, and in the PSUM tiles of the accumulation.
"""

from dataclasses import dataclass

import nki
import nki.isa as nisa
import nki.language as nl

from .moe_router import (
    CHOSEN,
    STATIC,
    P,
    affinities,
    by_column,
    chosen_experts,
    combined,
    computed,
    expert_of,
    logits,
    normalized,
    psum,
    stored,
)

LAST = 64  # inner features of an expert beyond the first 128
SUMS = 4  # PSUM columns for gates and inner features of an expert, two tiles each


@dataclass(frozen=True)
class Version:
    """The choices in which the versions differ."""

    wave: int = 4  # number of experts that are loaded before the first of them is computed
    buffers: int = 4  # number of experts whose weights fit into the buffers
    # How PSUM tiles are allocated: "apart" for each wave, once per "expert", or shared and "zeroed first" or "zeroed
    # after" the next loads.
    sums: str = "zeroed first"
    router_batch: int = 4
    router_static: bool = False
    turned_by_dma: bool = False  # a DMA transposes the token and the norm's weights


class _Experts:
    """The weight buffers, and the operands that all experts share."""

    def __init__(self, token, gate_up, down, indices, version):
        self.token, self.gate_up, self.down, self.indices = token, gate_up, down, indices
        self.tiles, self.width = token.shape[1], gate_up.shape[2]
        self.inner, self.columns = self.width // 2, token.shape[1] // 2
        count, half = version.buffers, self.columns * P
        self.gates = [self._buffer(self.tiles, self.width) for _ in range(count)]
        self.first = [nl.ndarray((P, half), dtype=down.dtype, buffer=nl.sbuf) for _ in range(count)]
        self.last = [nl.ndarray((P, half), dtype=down.dtype, buffer=nl.sbuf) for _ in range(count)]
        for buffer in self.last:
            nisa.memset(buffer[LAST:P, 0:half], value=0.0)
        self.padded = [self._buffer(self.tiles, P) for _ in range(2)]
        for buffer in self.padded:
            nisa.memset(buffer[0:P, 0 : self.tiles, LAST:P], value=0.0)
        self.total = nl.ndarray((P, self.columns), dtype=nl.float32, buffer=nl.sbuf)

    def _buffer(self, *shape):
        return nl.ndarray((P, *shape), dtype=self.gate_up.dtype, buffer=nl.sbuf)

    def load(self, number, place):
        """Load the weights of the number-th chosen expert into a buffer."""
        features = self.down.shape[2]
        start = nl.program_id(axis=0) * self.columns * P
        half = self.columns * P
        pattern = [[self.width, P], [P * self.width, self.tiles], [1, self.width]]
        pieces = (
            (self.gates[place], self.gate_up, pattern, 0),
            (self.first[place], self.down, [[features, P], [1, half]], start),
            (self.last[place][0:LAST, 0:half], self.down, [[features, LAST], [1, half]], P * features + start),
        )
        for dst, weights, piece, offset in pieces:
            expert = expert_of(self.indices, number)
            source = weights.ap(pattern=piece, offset=offset, scalar_offset=expert, indirect_dim=0)
            nisa.dma_copy(dst=dst, src=source)

    def compute(self, number, place, sums, weights):
        """Add the output of an expert. The given PSUM columns are used for gates, inner features and output."""
        inner, output = sums
        for padded, start in zip(self.padded, (P, self.inner + P)):
            source = self.gates[place][0:P, 0 : self.tiles, start : start + LAST]
            nisa.tensor_copy(dst=padded[0:P, 0 : self.tiles, 0:LAST], src=source)
        for t in range(self.tiles):
            for part in range(2):
                for kind in range(2):
                    column = 2 * kind + part
                    start = kind * self.inner
                    whole = self.gates[place][0:P, t, start : start + P]
                    stationary = self.padded[kind][0:P, t, 0:P] if part else whole
                    nisa.nc_matmul(
                        dst=inner[0:P, column : column + 1], stationary=stationary, moving=self.token[0:P, t : t + 1]
                    )
        gate = computed(nl.silu, inner[0:P, 0:2])
        product = combined(gate, computed(nl.copy, inner[0:P, 2:SUMS]))
        narrow = computed(nl.copy, product, nl.bfloat16)
        for column in range(self.columns):
            for part, buffers in enumerate((self.first, self.last)):
                nisa.nc_matmul(
                    dst=output[0:P, column : column + 1],
                    stationary=buffers[place][0:P, column * P : (column + 1) * P],
                    moving=narrow[0:P, part : part + 1],
                )
        result = by_column(computed(nl.copy, output), weights[0:P, number : number + 1])
        if number == 0:
            nisa.tensor_copy(dst=self.total, src=result)
        else:
            nisa.tensor_tensor(dst=self.total, data1=self.total, data2=result, op=nl.add)


class _Sums:
    """The PSUM tiles in which the outputs of experts are accumulated."""

    def __init__(self, version, columns):
        self.version, self.columns = version, columns
        experts = 1 if version.sums == "expert" else version.wave
        count = CHOSEN // version.wave if version.sums == "apart" else 1
        self.tiles = [(psum(P, SUMS * experts), psum(P, columns * experts)) for _ in range(count)]

    def zero(self):
        for pair in self.tiles:
            for each in pair:
                nisa.memset(each, value=0.0)

    def of(self, number):
        """Return the PSUM columns of an expert."""
        wave, place = divmod(number, self.version.wave)
        if self.version.sums == "expert":
            self.zero()
            place = 0
        inner, output = self.tiles[wave if self.version.sums == "apart" else 0]
        first, column = place * SUMS, place * self.columns
        return inner[0:P, first : first + SUMS], output[0:P, column : column + self.columns]


@nki.jit
def moe_fused(hidden, gamma, router, gate_up, down, version):
    """hidden [1, 1, H], gamma [1, H], router [H, E], gate_up [E, H, 2 I], down [E, I, H] -> [1, H]."""
    token = normalized(hidden, gamma, version.turned_by_dma)
    mode = STATIC if version.router_static else nisa.dge_mode.unknown
    values, indices = chosen_experts(logits(token, router, version.router_batch, mode))
    experts = _Experts(token, gate_up, down, indices, version)
    sums = _Sums(version, experts.columns)
    weights = None
    for first in range(0, CHOSEN, version.wave):
        if first and version.sums == "zeroed first":
            sums.zero()
        wave = range(first, first + version.wave)
        for number in wave:
            experts.load(number, number % version.buffers)
        if weights is None:
            weights = affinities(values)
            if version.sums != "expert":
                sums.zero()
        elif version.sums == "zeroed after":
            sums.zero()
        for number in wave:
            experts.compute(number, number % version.buffers, sums.of(number), weights)
    return stored(experts.total, hidden.shape[2])

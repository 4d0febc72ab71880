"""The fused MoE block of moe_fused.py with weights in 8-bit floats and a scale for each output: the loops and
instructions of the measured rows o34 to o40.

Four experts are computed first, then the other four. The versions differ in where scales are applied, in whether the
second four experts have separate weight buffers, and in how descriptors are generated.
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
    tile,
)

LAST = 64  # inner features of an expert beyond the first 128
WAVE = 4  # experts
SUMS = 4  # PSUM columns for gates and inner features of an expert, two tiles each
FP8 = nl.float8_e4m3


@dataclass(frozen=True)
class Version:
    """The choices in which the versions differ."""

    scales: str = "apart"  # applied "apart" from the router's weights, "joined" with them, or to all columns "at once"
    all_first: bool = False  # True if all eight experts are loaded first
    padded_first: bool = False  # the second tiles of a wave are padded before any of it is computed
    hardware: str = ""  # which loads of experts have hardware-generated descriptors: "scales" or "all"
    packed: bool = False  # the scales of gates are stored with the weights, in an additional plane after them


class _Expert:
    """The buffers of one expert."""

    def __init__(self, tiles, width, half, packed):
        planes = tiles + 1 if packed else tiles
        dtype = nl.int8 if packed else FP8
        self.raw_gates = nl.ndarray((P, planes, width), dtype=dtype, buffer=nl.sbuf)
        self.raw_first, self.raw_last = tile(P, half, dtype), tile(P, half, dtype)
        self.gates, self.first, self.last = self.raw_gates, self.raw_first, self.raw_last
        if packed:
            self.gates, self.first, self.last = (
                raw.view(FP8) for raw in (self.raw_gates, self.raw_first, self.raw_last)
            )
        self.gate_scales, self.down_scales = tile(P, width // P), tile(P, half // P)
        self.inner_scales = tile(P, 1), tile(P, 1)
        # The measured kernels do not initialise 64 of these values, because they are multiplied by zeros.
        nisa.memset(self.inner_scales[1], value=0.0)

    def arrange_scales(self):
        """Arrange the scales of the inner features like the tiles: the second half of the columns."""
        first, second = self.inner_scales
        for dst, src in (
            (first[0:LAST, 0:1], self.gate_scales[LAST:P, 1:2]),
            (first[LAST:P, 0:1], self.gate_scales[0:LAST, 2:3]),
            (second[0:LAST, 0:1], self.gate_scales[LAST:P, 2:3]),
        ):
            nisa.tensor_copy(dst=dst, src=src)


class _Block:
    """The weights in HBM, and the operands that all experts share."""

    def __init__(self, token, weights, version):
        self.token, self.version = token, version
        self.gate_up, self.gate_scales, self.down, self.down_scales = weights
        self.tiles, self.width = token.shape[1], self.gate_up.shape[-1]
        # the core's half of the output
        self.inner, self.columns = self.width // 2, self.down_scales.shape[1] // (2 * P)
        self.total = tile(P, self.columns)
        half = self.columns * P
        waves = 2 if version.all_first else 1
        self.experts = [_Expert(self.tiles, self.width, half, version.packed) for _ in range(waves * WAVE)]
        self.numbers = [tile(P, 1, nl.int32) for _ in range(CHOSEN if version.all_first else 1)]
        self.no_bias = tile(P, 1)
        nisa.memset(self.no_bias, value=0.0)
        for expert in self.experts:
            nisa.memset(expert.raw_last[LAST:P, 0:half], value=0 if version.packed else 0.0)
        pads = waves * WAVE if version.padded_first else 1
        self.padded = [
            [nl.ndarray((P, self.tiles, P), dtype=FP8, buffer=nl.sbuf) for _ in range(2)] for _ in range(pads)
        ]
        for pair in self.padded:
            for each in pair:
                nisa.memset(each[0:P, 0 : self.tiles, LAST:P], value=0.0)

    def fetch_number(self, indices, chosen):
        nisa.dma_copy(dst=self.numbers[chosen % len(self.numbers)][0:1, 0:1], src=expert_of(indices, chosen))

    def load(self, chosen):
        """Load the weights and scales of a chosen expert."""
        expert, by = self.experts[chosen % len(self.experts)], self.version.hardware
        number = self.numbers[chosen % len(self.numbers)].ap(pattern=[[1, 1], [1, 1]], offset=0)
        features, half = self.down.shape[2], self.columns * P
        start = nl.program_id(axis=0) * half
        modes = nisa.dge_mode
        scales = modes.hwdge if by else modes.unknown
        large = {"": modes.unknown, "scales": modes.swdge, "all": modes.hwdge}[by]
        dtype = None if self.version.packed else FP8
        planes = expert.raw_gates.shape[1]
        gates = [[self.width, P], [P * self.width, planes], [1, self.width]]
        pieces = [(expert.raw_gates, self.gate_up, gates, 0, large, dtype)]
        if not self.version.packed:
            columns = [[1, P], [P, self.width // P]]
            pieces.append((expert.gate_scales, self.gate_scales, columns, 0, scales, None))
        pieces += [
            (expert.raw_first, self.down, [[features, P], [1, half]], start, large, dtype),
            (
                expert.raw_last[0:LAST, 0:half],
                self.down,
                [[features, LAST], [1, half]],
                P * features + start,
                large,
                dtype,
            ),
            (expert.down_scales, self.down_scales, [[1, P], [P, self.columns]], start, scales, None),
        ]
        for dst, weights, pattern, offset, mode, of in pieces:
            source = weights.ap(pattern=pattern, offset=offset, scalar_offset=number, indirect_dim=0, dtype=of)
            nisa.dma_copy(dst=dst, src=source, dge_mode=mode)

    def pad(self, chosen):
        """Pad the second tiles of gates and inner features to 128."""
        expert = self.experts[chosen % len(self.experts)]
        for padded, start in zip(self.padded[chosen % len(self.padded)], (P, self.inner + P)):
            source = expert.gates[0:P, 0 : self.tiles, start : start + LAST]
            nisa.tensor_copy(dst=padded[0:P, 0 : self.tiles, 0:LAST], src=source)

    def scaled(self, op, data, scale):
        dst = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst, op=op, data=data, scale=scale, bias=self.no_bias)
        return dst

    def compute(self, chosen, sums, weights):
        """Add the output of an expert. The given PSUM columns are used for gates, inner features and output."""
        expert, (inner, output) = self.experts[chosen % len(self.experts)], sums
        if not self.version.padded_first:
            self.pad(chosen)
        padded = self.padded[chosen % len(self.padded)]
        for t in range(self.tiles):
            for part in range(2):
                for kind in range(2):
                    column, start = 2 * kind + part, kind * self.inner
                    stationary = padded[kind][0:P, t, 0:P] if part else expert.gates[0:P, t, start : start + P]
                    nisa.nc_matmul(
                        dst=inner[0:P, column : column + 1], stationary=stationary, moving=self.token[0:P, t : t + 1]
                    )
        products = tile(P, 2)
        for part in range(2):
            gate, scale = inner[0:P, part : part + 1], expert.gate_scales[0:P, part : part + 1]
            if self.version.scales == "apart":
                gate = computed(nl.silu, self.scaled(nl.copy, gate, scale))
            else:
                gate = self.scaled(nl.silu, gate, scale)
            up = self.scaled(nl.copy, inner[0:P, 2 + part : 3 + part], expert.inner_scales[part])
            nisa.tensor_tensor(products[0:P, part : part + 1], gate, up, nl.multiply)
        narrow = computed(nl.copy, products, nl.bfloat16)
        for column in range(self.columns):
            for part, buffer in enumerate((expert.first, expert.last)):
                nisa.nc_matmul(
                    dst=output[0:P, column : column + 1],
                    stationary=buffer[0:P, column * P : (column + 1) * P],
                    moving=narrow[0:P, part : part + 1],
                )
        self._add(chosen, expert, output, weights[0:P, chosen : chosen + 1])

    def _add(self, chosen, expert, output, weight):
        """Scale an expert's output and add it to the total."""
        first = chosen == 0 and not self.version.padded_first
        if self.version.scales == "at once":
            column = tile(P, 1)
            nisa.tensor_copy(dst=column, src=weight)
            scales = combined(expert.down_scales, column.ap([[1, P], [0, self.columns]], offset=0))
            self._sum_up(self.total, combined(computed(nl.copy, output), scales), first)
            return
        scales = expert.down_scales
        if self.version.scales == "joined":
            scales = tile(P, self.columns)
            for c in range(self.columns):
                nisa.tensor_tensor(scales[0:P, c : c + 1], expert.down_scales[0:P, c : c + 1], weight, nl.multiply)
        for c in range(self.columns):
            result = self.scaled(nl.copy, output[0:P, c : c + 1], scales[0:P, c : c + 1])
            if self.version.scales == "apart":
                result = by_column(result, weight)
            self._sum_up(self.total[0:P, c : c + 1], result, first)

    def _sum_up(self, total, result, first):
        if first:
            nisa.tensor_copy(dst=total, src=result)
        else:
            nisa.tensor_tensor(dst=total, data1=total, data2=result, op=nl.add)


def _zeroed(sums):
    for each in sums:
        nisa.memset(each, value=0.0)


@nki.jit
def moe_fused_fp8(hidden, gamma, router, gate_up, gate_scales, down, down_scales, version):
    """hidden [1, 1, H], gamma [1, H], router [H, E], gate_up [E, H, 2 I] (packed: [E, H / 128 + 1, 128, 2 I] with the
    scales in the last plane, and gate_scales None), gate_scales [E, 2 I], down [E, I, H], down_scales [E, columns] ->
    [1, H]. Only the columns that have scales are written, beginning with the first."""
    token = normalized(hidden, gamma, by_dma=False)
    values, indices = chosen_experts(logits(token, router, token.shape[1], STATIC))
    block = _Block(token, (gate_up, gate_scales, down, down_scales), version)
    waves = (range(WAVE), range(WAVE, CHOSEN))
    if version.all_first:
        for chosen in range(CHOSEN):
            block.fetch_number(indices, chosen)
    for chosen in range(CHOSEN if version.all_first else WAVE):
        if not version.all_first:
            block.fetch_number(indices, chosen)
        block.load(chosen)
    if version.packed:
        for expert in block.experts:
            plane = expert.raw_gates.view(nl.float32)[0:P, block.tiles, 0 : block.width // P]
            nisa.tensor_copy(dst=expert.gate_scales, src=plane)
    weights = affinities(values)
    for expert in block.experts:
        expert.arrange_scales()
    sums = psum(P, SUMS * WAVE), psum(P, block.columns * WAVE)
    for wave in waves:
        _zeroed(sums)
        if wave is waves[1] and not version.all_first:
            for chosen in wave:
                block.fetch_number(indices, chosen)
                block.load(chosen)
            for expert in block.experts:
                expert.arrange_scales()
        if version.padded_first:
            for chosen in wave:
                block.pad(chosen)
            if wave is waves[0]:
                nisa.memset(block.total, value=0.0)
        for chosen in wave:
            place = chosen % WAVE
            first, column = place * SUMS, place * block.columns
            inner = sums[0][0:P, first : first + SUMS]
            block.compute(chosen, (inner, sums[1][0:P, column : column + block.columns]), weights)
    return stored(block.total, hidden.shape[2])

"""Rules of the chip that a simulator may not enforce, checked on every instruction of every kernel.

Sources, in aws-neuron-sdk: nki/api/nki/isa/__init__.py (accumulation, dtypes, sizes), nki/guides/nki_simulator.rst
(uninitialised memory), nki/migration/index.rst (memset), nki/deep-dives/nki-aps.rst and
nki/guides/architecture/trainium_inferentia2_arch.rst (access patterns, partitions, access to memories). The rules are
implemented here a second time, on the views passed to instructions, without the simulator's own checks.
"""

import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import ml_dtypes
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from depthwise_networks import bounded, depthwise_filters, expansions, made_diagonals
from lowered import ALL, decide, decided
from random_networks import KINDS_OF_LAYERS, conv, labels, model_of, of_kind, picture, residual
from trninfer import kernels, simulator
from trninfer.kernels.convolution.forms import ROW_BLOCKS, Form
from trninfer.lowering.decisions import Decisions, Kind
from trninfer.lowering.emission.schedule import Region, StageOf
from trninfer.lowering.graph.graph import NodeId
from trninfer.lowering.passes.choose_forms import COMBINED_BYTES
from trninfer.models import Model, load_model
from trninfer.models.layers import Dense, Flatten
from trninfer.models.layout import pack_conv2d
from trninfer.models.network import Network
from trninfer.runtime.backend import EIGHT_BITS, NETWORK_DTYPES
from trninfer.runtime.layer_launches import specs_of
from trninfer.runtime.measure.float8_cases import float8_case
from trninfer.runtime.selftest import layer_checks
from trninfer.simulator import TensorSpec
from trninfer.simulator.instructions import scalar_engine, vector_engine
from trninfer.simulator.instructions.core import NeuronCore
from trninfer.simulator.machine.chip import TARGETS, find_target
from trninfer.simulator.machine.errors import ReportedOnChipWarning
from trninfer.simulator.running.kernel import execute

DTYPES = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16}
FP8 = ("bfloat16", "float16", EIGHT_BITS)
FREE_DIMENSIONS = {"tensor_reduce": 4}  # of an access pattern; 3 for all other instructions ("most instructions")
ENGINES = (nisa.engine.tensor, nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd)


class Step(NamedTuple):
    """An instruction and its views."""

    op: str
    engine: Any
    writes: tuple[Any, ...]
    reads: tuple[Any, ...]


def _weights(*shape: int) -> Any:
    return np.zeros(shape, np.float32)


def _packed(dtype: Any, out_channels: int, in_channels: int, kernel: int) -> tuple[Any, Any]:
    w_packed, bias_packed = pack_conv2d(_weights(out_channels, in_channels, kernel, kernel), _weights(out_channels))
    return w_packed.astype(dtype), bias_packed


# Shapes around the limits of a tile (128 partitions, 512 columns), and all variants that a kernel chooses from.
CALLS: dict[str, tuple[str, list[tuple[int, ...]], dict[str, Any]]] = {
    "vector_add_naive": ("vector_add_naive", [(300,), (300,)], {}),
    "vector_add_tiled": ("vector_add_tiled", [(1000,), (1000,)], {"rows": 64}),
    "vector_add_stream": ("vector_add_stream", [(128 * 70 + 5,), (128 * 70 + 5,)], {"free": 32}),
    "vector_add_direct_allocation": (
        "vector_add_direct_allocation",
        [(128 * 70 + 5,), (128 * 70 + 5,)],
        {"free": 16, "tiles": 2},
    ),
    "transpose": ("transpose", [(130, 257)], {}),
    "sums side by side": ("psum_side_by_side", [(300, 127), (300, 509)], {"slices": 5}),
    "sums within another": ("psum_within", [(300, 127), (300, 509)], {}),
    "matmul_tiled": ("matmul_tiled", [(130, 131), (130, 513)], {}),
    "matmul_hoist_load": ("matmul_hoist_load", [(130, 131), (130, 513)], {}),
    "matmul_block_free_dimension": ("matmul_block_free_dimension", [(257, 260), (257, 1030)], {}),
    "matmul_fully_optimized": ("matmul_fully_optimized", [(300, 140), (300, 520)], {}),
    "matmul of a vector": ("matmul_fully_optimized", [(1, 1), (1, 1)], {}),
    "softmax": ("bias_activation", [(130, 70), (1, 70)], {"activation": "softmax"}),
    "softmax of a long row": ("bias_activation", [(3, 9000), (1, 9000)], {"activation": "softmax"}),
    "relu": ("bias_activation", [(130, 3000), (1, 3000)], {"activation": "relu"}),
    "identity": ("bias_activation", [(5, 3), (1, 3)], {"activation": "identity"}),
    "argmax of few": ("argmax", [(130, 3)], {}),
    "argmax of many": ("argmax", [(130, 17000)], {}),
    "average_pool": ("average_pool", [(3, 50, 8, 8)], {"window": (2, 4), "stride": (2, 4)}),
    "average_pool of all": ("average_pool", [(3, 129, 7, 7)], {"window": (7, 7)}),
    "average_pool in pieces": ("average_pool", [(1, 3, 80, 81)], {"window": (70, 70), "padding": (2, 0, 0, 3)}),
    "average_pool at the border": (
        "average_pool",
        [(1, 5, 9, 8)],
        {"window": (3, 3), "stride": (2, 3), "padding": (1, 1, 1, 1), "ceil_mode": True},
    ),
    "conv2d of one channel": (
        "fused_conv2d_maxpool",
        [(2, 1, 12, 12), (6, 1, 5, 5), (6,)],
        {"pool_size": 2, "padding": 2, "activation": "relu"},
    ),
    "conv2d of many channels": (
        "fused_conv2d_maxpool",
        [(2, 130, 10, 9), (140, 130, 3, 3), (140,)],
        {"pool_size": 2, "activation": "gelu"},
    ),
    "conv2d of a wide image": ("fused_conv2d_maxpool", [(1, 3, 6, 600), (4, 3, 3, 3), (4,)], {"padding": 1}),
    "ffnn_forward": ("ffnn_forward", [(130, 64), (64, 140), (1, 140), (140, 10), (1, 10)], {}),
    "ffnn_forward in blocks": ("ffnn_forward", [(515, 600), (600, 641), (1, 641), (641, 513), (1, 513)], {}),
    "ffnn_forward by a matmul": (
        "ffnn_forward",
        [(130, 64), (64, 140), (1, 140), (140, 10), (1, 10)],
        {"matmul": "fully_optimized"},
    ),
    "ffnn_predict of long rows": ("ffnn_predict", [(3, 64), (64, 129), (1, 129), (129, 700), (1, 700)], {}),
    "ffnn_predict": ("ffnn_predict", [(5, 64), (64, 32), (1, 32), (32, 10), (1, 10)], {"matmul": "tiled"}),
}
BREAK_REPORTED_RULES = {"sums side by side"}  # see simulator/instructions/reported.py; the self-test asks the chip
PACKED = {
    "packed, one channel": ((3, 1, 12, 12), (8, 1, 3), {"pool_size": 2, "padding": 1, "activation": "relu"}),
    "packed, 8 channels": ((2, 8, 8, 8), (16, 8, 3), {"padding": 1, "activation": "tanh"}),
    "packed, 200 channels": ((1, 200, 6, 6), (130, 200, 3), {"pool_size": 2, "padding": 1}),
    "packed, with a sum": ((2, 200, 6, 6), (130, 200, 3), {"activation": "silu"}),
}

LAYERS = {f"layer {case.name}": case for case in layer_checks.cases(1)}  # with 129 channels or 513 features
EXPANSIONS = decide(packs_rows=True, pack_depthwise_expansions=True)
ROWS, TAPS = decide(packs_rows=True), decide(copied=ALL)
GROUPED = decide(forms=tuple((NodeId(number), form.value, 0) for number, form in enumerate((Form.DIRECT, *ROW_BLOCKS))))
FILTERED = decide(forms=tuple((number, "pairs", combined_bytes) for number in ALL for combined_bytes in COMBINED_BYTES))
BANDS = [Region(0, 3, 3)]
NETWORKS = {  # on a batch, with decisions that cover all variants of the kernel
    "network of one picture": ("digits-cnn", 1, TAPS),
    "network of one picture whose taps fill up": ("digits-cnn", 1, decide(copied=ALL, filled_taps=33)),
    "network of three pictures whose taps are neighbours": ("digits-cnn", 3, decide(filled_taps=3)),
    "network of packed pictures whose taps come at once": ("digits-cnn", 32, decide(packed=8, filled_taps=24)),
    "network of packed pictures": ("digits-cnn", 32, decide(packed=16)),
    "network with turned scores": ("scores", 1, decide(turns_scores=True)),
    "network of rows": ("digits-ffnn", 140, Decisions()),
    "network in stages": ("digits-cnn", 6, decide(packed=2, stages=[StageOf(2, 1)], at_once=3)),
    "network with slopes": ("prelu", 3, decide(packed=4)),
    "network with layer norm": ("layer_norm", 3, decide(packed=4)),
    "network with group norm": ("group_norm", 3, decide(packed=4)),
    "network of one picture with group norm": ("group_norm", 1, TAPS),
    "network of packed rows": ("packed_rows", 1, ROWS),
    "network of packed rows in bands": (
        "packed_rows",
        2,
        ROWS.having(*decide(regions=BANDS, in_hbm=[2]).choices),
    ),
    "network of packed expansions": ("expansions", 1, EXPANSIONS),
    "network of combined filters": ("filtered", 2, FILTERED),
    "network of depthwise filters in groups of rows": ("depthwise", 2, GROUPED),
    "network of made diagonals": ("made", 2, decide(forms=((None, Form.MADE.value, 0),))),
    "network of products": ("small", 2, decide(forms=((None, Form.PRODUCTS.value, 0),))),
    "network of row products": ("depthwise", 2, decide(forms=((None, Form.ROW_PRODUCTS.value, 0),))),
}
IN_EIGHT_BITS = {
    "8 bits": ("bounded", 3, decide(fp8=ALL)),
    "8 bits, packed pictures": ("packed_rows", 4, decide(packed=2, fp8=ALL)),
    "8 bits, packed expansions": ("expansions", 2, decide(packs_rows=True, pack_depthwise_expansions=True, fp8=ALL)),
    "8 bits, packed rows": ("packed_rows", 2, ROWS),
    "8 bits, no values": ("bounded", 2, Decisions()),
}
CONVOLUTIONS_IN_EIGHT_BITS = {
    "8 bits, from HBM": {"batch": "2", "cin": "256", "cout": "130", "h": "9", "w": "40", "padding": "1"},
    "8 bits, small images from HBM": {"batch": "5", "cin": "300", "cout": "64", "h": "6", "w": "6", "pool": "2"},
    "8 bits, few channels from HBM": {"cin": "3", "cout": "8", "h": "20", "w": "21", "k": "5", "padding": "2"},
}
ALL_NETWORKS = {**NETWORKS, **IN_EIGHT_BITS}


def _model(name: str) -> Model:
    if name in KINDS_OF_LAYERS:
        return of_kind(name)
    if name in ("depthwise", "expansions"):
        return depthwise_filters() if name == "depthwise" else expansions()
    if name == "bounded":
        return bounded()
    if name in ("made", "small"):
        return made_diagonals(side=8 if name == "made" else 5)
    if name == "scores":
        layers = (conv("conv", 3, 140, 3), Flatten("flat"), Dense("dense", 140 * 6 * 5, 300))
        return model_of(Network("n", picture(3, 6), layers, labels(300)))
    if name in ("packed_rows", "filtered"):
        return residual(64 if name == "packed_rows" else 72, blocks=1)
    return load_model(name)


def _network(case: str, dtype: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    name, batch, decisions = ALL_NETWORKS[case]
    chosen = [each for each in decisions.choices if each.kind is Kind.FORM]
    forms = [Form(form) for form in dict.fromkeys(each.value[0] for each in chosen)]
    plan = decided(_model(name), decisions, batch, dtype, forms)
    assert {getattr(node.operation, "form", None) for node in plan.graph.nodes} >= set(forms)
    own = NETWORK_DTYPES[dtype]
    operands = {name: TensorSpec(shape, each.name) for name, (shape, each) in plan.layout.sizes.specs(own).items()}
    x = TensorSpec((plan.images, *plan.graph.image), own.name)
    return kernels.run_network, (x,), {**operands, "program": plan.program}


def _layer(case: str, dtype: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    layer = LAYERS[case].layer
    tensors = {name: np.ones(shape, np.float32) for name, shape in layer.tensor_shapes().items()}
    plan = LAYERS[case].plan(tensors, np.dtype(NETWORK_DTYPES[dtype]))
    specs = specs_of(plan, np.dtype(NETWORK_DTYPES[dtype]))
    operands = {name: TensorSpec(spec.shape, np.dtype(spec.dtype).name) for name, spec in specs.items()}
    return kernels.run_network, (), {**operands, "program": plan.program}


def _arguments(case: str, dtype: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    if case in ALL_NETWORKS:
        return _network(case, dtype)
    if case in CONVOLUTIONS_IN_EIGHT_BITS:
        found = float8_case("conv2d", CONVOLUTIONS_IN_EIGHT_BITS[case])
        own = NETWORK_DTYPES[dtype]
        specs = [TensorSpec(shape, found.dtype_of(n, own).name) for n, shape in enumerate(found.shapes)]
        return kernels.kernel(found.kernel), tuple(specs), dict(found.parameters)
    if case in LAYERS:
        return _layer(case, dtype)
    if case in PACKED:
        shape, (out_channels, in_channels, kernel), parameters = PACKED[case]
        arrays = (TensorSpec(shape, DTYPES[dtype]), *_packed(DTYPES[dtype], out_channels, in_channels, kernel))
        parameters = {**parameters, "in_channels": in_channels, "kernel_size": kernel}
        if case == "packed, with a sum":
            added = TensorSpec((shape[0], out_channels, shape[2] - kernel + 1, shape[3] - kernel + 1), DTYPES[dtype])
            return kernels.fused_conv2d_add_packed, (arrays[0], added, *arrays[1:]), parameters
        return kernels.fused_conv2d_maxpool_packed, arrays, parameters
    name, shapes, parameters = CALLS[case]
    return kernels.kernel(name), tuple(TensorSpec(shape, DTYPES[dtype]) for shape in shapes), parameters


IN_SLOW_RUNS = {"float16": pytest.mark.slow}  # issues the same instructions as bfloat16
CASES = [
    pytest.param(case, dtype, marks=IN_SLOW_RUNS.get(dtype, ()))
    for case in (*CALLS, *PACKED, *NETWORKS, *LAYERS)
    for dtype in DTYPES
]
CASES += [pytest.param(case, EIGHT_BITS) for case in (*IN_EIGHT_BITS, *CONVOLUTIONS_IN_EIGHT_BITS)]


def steps_of(case: str, dtype: str, target: str) -> list[Step]:
    """Return the instructions of a kernel on a target in a dtype, checking the values it writes."""
    found: list[Step] = []
    issue = NeuronCore.issue

    def record(core: NeuronCore, op: str, unit: Any, writes: Any, reads: Any, *rest: Any, **more: Any) -> Any:
        found.append(Step(op, unit, writes, reads))
        return issue(core, op, unit, writes, reads, *rest, **more)

    def memset(dst: Any, value: Any, *rest: Any, **more: Any) -> Any:
        kinds = (int,) if dst.dtype.startswith(("int", "uint", "bool")) else (int, float)
        assert type(value) in kinds, f"memset of {dst.dtype} with {value!r}"
        return vector_engine.memset(dst, value, *rest, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NeuronCore, "issue", record)
        patch.setattr(nisa, "memset", memset)
        kernel, arrays, parameters = _arguments(case, dtype)
        execute(NeuronCore(find_target(target), functional=False), kernel, arrays, parameters)
    assert found
    return found


def _rows(tensor: Any) -> slice:
    """Return the partitions of a view on the chip; a view in HBM has a single row."""
    if not tensor.storage.on_chip:
        return slice(0, 1)
    first = tensor.storage.partition_base + tensor.offset // tensor.row
    return slice(first, first + tensor.shape[0])


def _columns(tensor: Any) -> Any:
    """Return the addresses of the bytes in a row that a view accesses, [elements, bytes of one]."""
    on_chip = tensor.storage.on_chip
    places = np.array([tensor.offset % tensor.row if on_chip else tensor.offset])
    first = 1 if on_chip else 0
    for extent, stride in zip(tensor.shape[first:], tensor.strides[first:]):
        places = (places[:, None] + np.arange(extent) * stride).reshape(-1)
    size = tensor._dtype.itemsize
    return tensor.storage.base + places[:, None] * size + np.arange(size)


def _free_dimensions(tensor: Any) -> list[tuple[int, int]]:
    """Return (extent, stride) of the free dimensions that an access pattern needs, after merging contiguous
    dimensions."""
    merged: list[tuple[int, int]] = []
    for extent, stride in zip(reversed(tensor.shape[1:]), reversed(tensor.strides[1:])):
        if extent == 1:
            continue
        if merged and merged[-1][0] * merged[-1][1] == stride:
            merged[-1] = (merged[-1][0] * extent, merged[-1][1])
        else:
            merged.append((extent, stride))
    return merged


def _operands(steps: list[Step]) -> Iterator[tuple[Step, Any]]:
    for step in steps:
        for tensor in (*step.writes, *step.reads):
            yield step, tensor


UNTOUCHED, BY_MATMUL, BY_ANOTHER = 0, 1, 2


def memory_is_written_before_it_is_read_and_results_once(steps: list[Step], target: str) -> None:
    state: dict[Any, Any] = defaultdict(dict)
    times: dict[Any, Any] = {}
    for step in steps:
        for tensor in step.reads:
            owner = tensor.storage.owner
            if owner.argument:
                continue
            held = state.get(owner)
            assert held is not None, f"{step.op} reads {tensor.label}, which nothing has written"
            touched = held[_rows(tensor), _columns(tensor)]
            assert touched.all(), f"{step.op} reads {tensor.label}, of which a part was never written"
            if step.engine is nisa.engine.tensor and any(tensor is written for written in step.writes):
                assert (touched == BY_MATMUL).all(), f"{step.op} adds to {tensor.label}, which no matmul began"
        for tensor in step.writes:
            storage = tensor.storage
            assert not storage.owner.argument, f"{step.op} writes to the argument {tensor.label}"
            if storage.owner not in state:
                size = 1 << 18 if storage.arena is not None else storage.row * storage.dtype.itemsize
                state[storage.owner] = np.zeros((128 if storage.on_chip else 1, size), np.int8)
            columns = _columns(tensor)
            gaps = np.diff(np.sort(columns[:, 0]))
            assert (gaps >= columns.shape[1]).all(), f"{step.op} writes an element of {tensor.label} twice"
            by = BY_MATMUL if step.engine is nisa.engine.tensor else BY_ANOTHER
            state[storage.owner][_rows(tensor), columns] = by
            if not storage.on_chip:
                times.setdefault(storage.owner, np.zeros(storage.size * storage.dtype.itemsize, np.int8))
                times[storage.owner][columns] += 1
    # DMA queues run concurrently: if two of them write the same location, either value may remain.
    assert times
    for allocation, counts in times.items():
        assert (counts == 1).all(), f"{allocation.label} is not written once all over"


def tiles_placed_by_address_coincide_or_are_apart(steps: list[Step], target: str) -> None:
    placed = {t.storage for _, t in _operands(steps) if t.storage.arena is not None}
    rectangles = {
        (s.region, s.partition_base, s.partition_base + s.shape[0], s.base, s.base + s.row_bytes) for s in placed
    }
    for one in rectangles:
        for other in rectangles - {one}:
            if one[0] is other[0] and one[3] < other[4] and other[3] < one[4]:
                assert one[3] == other[3], f"{one} and {other} overlap without being one place"


def each_memory_is_reached_by_who_can(steps: list[Step], target: str) -> None:
    for step, tensor in _operands(steps):
        region = tensor.buffer
        if step.engine is nisa.engine.dma:
            assert region is not nl.psum, f"DMA {step.op} touches {tensor.label}"
        else:
            assert step.engine in ENGINES
            assert region in (nl.sbuf, nl.psum), f"{step.op} touches {tensor.label}"
            if region is nl.psum:
                assert tensor.access.byte % 4 == 0, f"{step.op}: {tensor.label} starts at byte {tensor.access.byte}"
        if step.engine is nisa.engine.gpsimd:
            assert region is nl.sbuf, f"GpSimd {step.op} touches {tensor.label}"
    for step in steps:
        if step.engine is nisa.engine.tensor:
            assert all(tensor.buffer is nl.psum for tensor in step.writes)
            assert all(t.buffer is nl.sbuf for t in step.reads if not any(t is w for w in step.writes))
        if step.op in ("tensor_tensor", "scalar_tensor_tensor"):
            assert [t.buffer for t in step.reads[:2]] != [nl.psum, nl.psum]


def operands_start_at_partitions_that_engines_reach(steps: list[Step], target: str) -> None:
    for step, tensor in _operands(steps):
        if step.engine is nisa.engine.dma:
            continue
        rows = _rows(tensor)
        count = rows.stop - rows.start
        starts = (0, 32, 64, 96) if count <= 32 else (0, 64) if count <= 64 else (0,)
        assert rows.start in starts, f"{step.op}: {tensor.label} has {count} partitions from {rows.start} on"


def access_patterns_fit_an_instruction(steps: list[Step], target: str) -> None:
    for step, tensor in _operands(steps):
        if step.engine is nisa.engine.dma:
            assert len(tensor.shape) <= 5, f"{step.op}: {tensor.label}"
            continue
        free = _free_dimensions(tensor)
        assert len(free) <= FREE_DIMENSIONS.get(step.op, 3), f"{step.op}: {tensor.label} steps {free}"
        for extent, stride in free:
            assert extent < 1 << 16, f"{step.op}: {tensor.label} has {extent} elements in a row; a count is uint16"
            assert abs(stride) < 1 << 15, f"{step.op}: {tensor.label} has a stride of {stride}; it is an int16"


def dtypes_go_together(steps: list[Step], target: str) -> None:
    for step in steps:
        dst, *others = (*step.writes, *step.reads)
        dtypes = [tensor.dtype for tensor in others]
        if step.op == "nc_matmul":
            assert dst.dtype == "float32"
            assert dtypes[:2] == ["float32"] * 2 or all(d in FP8 for d in dtypes[:2]), f"matmul of {dtypes}"
        if step.engine is nisa.engine.tensor and target == "trn1":
            assert dst.dtype == "float32", f"{step.op} into {dst.dtype}"  # NeuronCore-v2 writes no other dtype to PSUM
        elif step.op in ("nc_transpose", "dma_transpose"):
            assert dst.dtype == dtypes[0], f"{step.op} of {dtypes[0]} into {dst.dtype}"
        if step.op == "tensor_scalar":
            assert all(d == "float32" for d in dtypes[1:]), f"tensor_scalar with columns of {dtypes[1:]}"
        if step.op == "tensor_copy" and target == "trn1":
            assert step.engine is not nisa.engine.scalar


def sizes_are_what_an_instruction_takes(steps: list[Step], target: str) -> None:
    for step in steps:
        if step.op == "nc_matmul":
            stationary, moving = step.reads[:2]
            planes = 2 if stationary.free_size == 2 * step.writes[0].shape[0] else 1
            assert stationary.shape[0] == moving.shape[0] <= 128
            assert stationary.free_size <= 128 * planes and moving.free_size <= 512 * planes
            assert planes == 1 or stationary.shape[1] == moving.shape[1] == 2
            first, last = _columns(step.writes[0])[[0, -1], [0, -1]]
            assert first // 2048 == last // 2048, f"matmul into {step.writes[0].label}, across PSUM banks"
        if step.op == "nc_transpose":
            limit = 128 if step.engine is nisa.engine.tensor else 32
            assert step.reads[0].shape[0] <= limit and step.reads[0].free_size <= limit
        if step.op in ("max8", "nc_find_index8"):
            data = step.reads[0]
            assert 8 <= data.free_size <= 16384 and len(data.shape) <= 3
            assert all(t.free_size == 8 for t in (*step.writes, *step.reads[1:]))


RULES = (
    memory_is_written_before_it_is_read_and_results_once,
    tiles_placed_by_address_coincide_or_are_apart,
    each_memory_is_reached_by_who_can,
    operands_start_at_partitions_that_engines_reach,
    access_patterns_fit_an_instruction,
    dtypes_go_together,
    sizes_are_what_an_instruction_takes,
)


@pytest.mark.parametrize(("case", "dtype"), CASES)
def test_a_kernel_keeps_to_the_rules_of_each_chip(case: str, dtype: str) -> None:
    broken = []
    for target in TARGETS:
        steps = steps_of(case, dtype, target)
        for rule in RULES:
            try:
                rule(steps, target)
            except AssertionError as error:
                broken.append(f"{target}, {rule.__name__}: {error}")
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("target", TARGETS)
def test_scales_and_biases_of_activations(monkeypatch: pytest.MonkeyPatch, target: str, dtype: str) -> None:
    """On trn1 a bias is a column; on all targets, a scale is float32."""
    seen = 0

    def activation(dst: Any, op: Any, data: Any, bias: Any = None, scale: Any = 1.0, **more: Any) -> Any:
        nonlocal seen
        seen += 1
        assert not hasattr(scale, "dtype") or scale.dtype == "float32"
        assert bias is None or hasattr(bias, "dtype") or target != "trn1", f"bias {bias!r} on trn1"
        return scalar_engine.activation(dst, op, data, bias=bias, scale=scale, **more)

    monkeypatch.setattr(nisa, "activation", activation)
    for case in ("softmax", "relu", "conv2d of one channel", "conv2d of many channels", "ffnn_forward"):
        kernel, arrays, parameters = _arguments(case, dtype)
        execute(NeuronCore(find_target(target), functional=False), kernel, arrays, parameters)
    assert seen


@pytest.mark.parametrize("case", [*CALLS, *PACKED, *LAYERS])
def test_the_sanitizer_finds_nothing(case: str) -> None:
    kernel, arrays, parameters = _arguments(case, "bfloat16")
    with warnings.catch_warnings():
        if case not in BREAK_REPORTED_RULES and case not in LAYERS:  # their 129 channels end in a tile with one column
            warnings.simplefilter("error", ReportedOnChipWarning)
        run = simulator.run(kernel, *arrays, functional=False, sanitize=True, **parameters)
    assert not run.findings, "\n".join(map(str, run.findings))


@pytest.mark.parametrize("case", ALL_NETWORKS)
def test_networks_keep_to_what_is_reported_of_chips(case: str) -> None:
    kernel, arrays, parameters = _arguments(case, EIGHT_BITS if case in IN_EIGHT_BITS else "bfloat16")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReportedOnChipWarning)
        simulator.run(kernel, *arrays, functional=False, **parameters)

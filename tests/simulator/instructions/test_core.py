"""Instructions can be issued only in a kernel; checks and costs are computed once for operands of the same form."""

import warnings
from typing import Any

import nki.isa as nisa
import nki.language as nl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nki_tensors import hbm, new, on, psum
from trninfer import simulator
from trninfer.simulator import NkiValidationError
from trninfer.simulator.instructions.core import NeuronCore
from trninfer.simulator.machine.errors import UndefinedOnChipWarning
from trninfer.simulator.machine.instruction import DECLARATIONS
from trninfer.simulator.running import launch
from trninfer.simulator.timing.constants import changed
from typical_kernels import CASES


def test_instructions_need_a_kernel():
    with pytest.raises(NkiValidationError, match="inside a kernel"):
        nl.ndarray((4, 4), nl.float32)


def ask_each_time(core: NeuronCore, op: str, *operands: Any) -> Any:
    return DECLARATIONS[op](core, *operands)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("name", sorted(set(CASES) - {"embedding"}))
def test_rules_found_before_are_the_rules_asked_each_time(name, target, monkeypatch):
    kernel, arguments = CASES[name]
    programs = []
    for settle in (NeuronCore.settle, ask_each_time):
        monkeypatch.setattr(NeuronCore, "settle", settle)
        run = simulator.run(kernel, *arguments(3), target=target, functional=False)
        programs.append([(i.op, i.engine, i.cost, i.dma, i.flops, i.hbm_bytes, i.options, i.line) for i in run.program])
        launch._PREDICTIONS.clear()
    assert programs[0] == programs[1]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 96), st.sampled_from([0, 32, 33, 64, 96]), st.sampled_from(["float32", "bfloat16"]))
def test_a_tile_that_was_allowed_allows_no_other(partitions, first, dtype):
    allowed = first + partitions <= 128 and (
        first == 0 or (first % 32 == 0 and partitions <= (64 if first == 64 else 32))
    )
    with on():
        large, small = new((128, 8), dtype), new((partitions, 8), dtype)
        nisa.tensor_copy(small, large[0:partitions])
        if first + partitions > 128:
            return
        if allowed:
            nisa.tensor_copy(small, large[first : first + partitions])
        else:
            with pytest.raises(NkiValidationError, match="engines can start at 0"):
                nisa.tensor_copy(small, large[first : first + partitions])


def test_cached_calls_follow_changed_constants():
    def cost() -> float:
        with on():
            return nisa.reciprocal(new((128, 64)), new((128, 64))).cost.interval

    usual = cost()
    with changed("trn2", {"reciprocal_cycles": 80.0}):
        assert cost() > 2 * usual
    assert cost() == usual


def test_cached_calls_are_separate_for_each_target():
    for target, allowed in (("trn2", True), ("trn1", False), ("trn2", True)):
        with on(target):
            operands = new((4, 8)), new((4, 8))
            if allowed:
                nisa.tensor_copy(*operands, engine=nisa.engine.scalar)
            else:
                with pytest.raises(NkiValidationError, match="no copy on trn1"):
                    nisa.tensor_copy(*operands, engine=nisa.engine.scalar)


def test_warnings_of_operands_seen_before_name_the_tensors_and_the_line():
    with on(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name in ("first", "second", "third"):
            narrow = new((4, 3), nl.bfloat16, nl.psum, name=name)
            nisa.tensor_copy(narrow, new((4, 3), nl.bfloat16))
            nisa.tensor_copy(narrow, new((4, 3), nl.bfloat16))
    assert [str(each.message).split()[2] for each in caught] == ["first", "first", "second", "second", "third", "third"]
    assert [each.lineno - caught[0].lineno for each in caught] == [0, 1, 0, 1, 0, 1]


def test_number_of_cached_calls_is_bounded(monkeypatch):
    monkeypatch.setattr("trninfer.simulator.instructions.core.MAX_SETTLED", 5)
    with on() as core:
        for columns in range(1, 12):
            nisa.tensor_copy(new((4, columns)), new((4, columns)))
        assert len(core._settled) <= 5


def test_numbers_of_another_type_are_looked_at_again():
    with on():
        whole, bits = new((4, 4), nl.int32), new((4, 4), nl.int32)
        nisa.memset(whole, 1)
        with pytest.raises(NkiValidationError, match=r"memset: value 1\.0 .* must be an integer"):
            nisa.memset(whole, 1.0)
        nisa.tensor_scalar(bits, whole, op0=nl.bitwise_and, operand0=1)
        with pytest.raises(NkiValidationError, match=r"operand0 of nl\.bitwise_and must be an integer"):
            nisa.tensor_scalar(bits, whole, op0=nl.bitwise_and, operand0=1.0)


def test_each_line_is_warned():
    with on(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        a, b = new((100, 4)), new((128, 4))
        for _ in range(3):
            nisa.tensor_tensor(a[0:32], a[32:64], b[64:96], op=nl.add)
        nisa.tensor_tensor(a[0:32], a[32:64], b[64:96], op=nl.add)
    assert [w.category for w in told] == [UndefinedOnChipWarning] * 2
    assert told[1].lineno == told[0].lineno + 1


def test_unknown_operand_is_reported():
    with on():
        with pytest.raises(NkiValidationError, match="tensor_copy: src must be an NkiTensor, got list"):
            nisa.tensor_copy(new((4, 4)), [1, 2])
        with pytest.raises(NkiValidationError, match="dma_copy: dst must be an NkiTensor, got NoneType"):
            nisa.dma_copy(dst=None, src=hbm((4, 4)))
        nisa.tensor_reduce(new((4, 1)), nl.add, new((4, 4)), axis=[1])


def test_banks_go_by_the_address():
    with on():
        sums, ones = psum((128, 1024)), new((128, 512))
        nisa.nc_matmul(sums[:, 0:512], ones[:, 0:128], ones)
        nisa.nc_matmul(sums[:, 512:1024], ones[:, 0:128], ones)
        with pytest.raises(NkiValidationError, match="within one PSUM bank"):
            nisa.nc_matmul(sums[:, 256:768], ones[:, 0:128], ones)

"""Advice on small tiles that fill PSUM, compared with attention that packs its transposes as the compiler did."""

import json

import nki
import nki.language as nl
import pytest
from packed_attention import attention_fused
from trninfer import simulator
from trninfer.simulator import TensorSpec
from trninfer.simulator.running.script import summary


def run_attention(keys, is_packed):
    given = [TensorSpec((128, keys), "bfloat16")] * 3
    return simulator.run(attention_fused, *given, as_compiled=is_packed, functional=False)


def test_the_gain_is_that_of_a_kernel_that_packs_its_transposes():
    """Each square of 128 x 128 weights takes a bank; in the packed kernel, four of them share one."""
    apart, packed = run_attention(1024, False), run_attention(1024, True)
    found = apart.full_psum
    assert found.gain_us == pytest.approx(apart.latency_us - packed.latency_us, rel=0.1)
    assert (found.name, found.row_bytes) == ("flipped", 256)
    (advice,) = apart.advice
    assert advice.startswith("PSUM is full: tile flipped (packed_attention.py:")
    assert "takes 256 of the 2,048 bytes of its bank; writing 8 of them to one tile" in advice
    assert advice.endswith(f"would save up to {found.gain_us:.1f} of {apart.latency_us:.1f} us")
    assert packed.full_psum is None and packed.advice == []
    assert json.loads(json.dumps(summary(apart, [])))["full_psum"]["gain_us"] == round(found.gain_us, 3)


def test_no_advice_for_small_gains_few_tiles_or_two_cores():
    assert run_attention(512, False).full_psum is None

    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.copy(nl.matmul(nl.load(a), nl.load(a))))
        return out

    square = TensorSpec((128, 128), "float32")
    assert simulator.run(kernel, square, functional=False).full_psum is None
    assert simulator.run(kernel, square, functional=False, lnc=2).full_psum is None

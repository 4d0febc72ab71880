"""Configurations of nki.jit, and the number of cores requested by the environment."""

import nki
import nki.language as nl
import numpy as np
import pytest
from nki.compiler import AddressRotation, CompileConfig, SpecializationConfig
from trninfer import simulator
from trninfer.simulator import NkiValidationError

A = np.ones((4, 3), np.float32)


def kernel_with(inner=None, **configs):
    @nki.jit(**configs)
    def doubled(a):
        tile = nl.load(a) if inner is None else inner(a)
        out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
        nl.store(out, nl.multiply(tile, 2.0))
        return out

    return doubled


def load(**configs):
    return nki.jit(lambda a: nl.load(a), **configs)


def test_configurations_are_accepted_without_effect():
    plain = simulator.run(kernel_with(), A)
    config = CompileConfig(address_rotation=AddressRotation.DISABLE, prefetch_auto=True, dead_code_elim=False)
    for kernel in (
        kernel_with(compile_config=config, specialization_config=SpecializationConfig()),
        nki.jit(kernel_with().function, compile_config=config),
    ):
        run = simulator.run(kernel, A)
        assert (run.outputs[0] == 2).all() and run.latency_us == plain.latency_us
    assert CompileConfig().nki_alloc_fallback and not CompileConfig().prefetch_auto


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nki.jit(compile_config={}), "compile_config must be a nki.compiler.CompileConfig, got dict"),
        (lambda: nki.jit(specialization_config=CompileConfig()), "specialization_config must be a nki.compiler.Spec"),
        (lambda: CompileConfig(prefetch_auto=1), "prefetch_auto must be True or False, got 1"),
        (lambda: CompileConfig(address_rotation="auto"), "address_rotation must be AUTO, ENABLE .*, got 'auto'"),
        (lambda: CompileConfig(optimise=True), "optimise"),
    ],
)
def test_invalid_configuration_is_refused(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_a_nested_kernel_with_another_configuration():
    other = CompileConfig(prefetch_auto=True)
    assert (simulator.run(kernel_with(load(compile_config=other), compile_config=other), A).outputs[0] == 2).all()
    with pytest.raises(
        NkiValidationError, match="inside a kernel with None; a kernel is compiled with one configuration"
    ):
        simulator.run(kernel_with(load(compile_config=other)), A)
    allowed = SpecializationConfig(allow_nested_config_override=True)
    with pytest.warns(UserWarning, match="the outer one holds"):
        simulator.run(kernel_with(load(compile_config=other), specialization_config=allowed), A)


def test_the_environment_determines_the_number_of_cores(monkeypatch):
    @nki.jit
    def rows(a):
        out = nl.ndarray((2, *a.shape), a.dtype, nl.shared_hbm)
        nl.store(out[nl.program_id()], nl.multiply(nl.load(a), float(nl.num_programs())))
        return out

    assert (simulator.run(rows, A).outputs[0][0] == 1).all()
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    run = simulator.run(rows, A, pure=True)
    assert (run.outputs[0] == 2).all() and run.prediction.cores == 2
    assert (simulator.run(rows[2], A).outputs[0] == 2).all()
    with pytest.raises(
        NkiValidationError, match=r"rows\[1\]: NEURON_LOGICAL_NC_CONFIG is 2; the launch grid must have"
    ):
        simulator.run(rows[1], A)
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    assert simulator.run(rows, A, pure=True).prediction.cores == 1
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "4")
    with pytest.raises(NkiValidationError, match="NEURON_LOGICAL_NC_CONFIG must be 1 or 2, got '4'"):
        simulator.run(rows, A)

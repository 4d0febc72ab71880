"""How much SBUF and PSUM programs take."""

import nki.isa as nisa
import nki.language as nl
import pytest
from nki_tensors import new
from trninfer.simulator import CapacityError
from trninfer.simulator.core import NeuronCore
from trninfer.simulator.launch import execute
from trninfer.simulator.targets import TARGETS, find_target


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum])
def test_what_is_alive_counts_and_is_named(target, buffer):
    found = find_target(target)
    whole = found.sbuf_bytes if buffer is nl.sbuf else found.psum_bytes

    def kernel(tiles):
        kept = [nl.ndarray((128, whole // 8 // 4), nl.float32, buffer, name=f"kept{i}") for i in range(tiles)]
        for tile in kept:
            nisa.memset(tile, 1.0, engine=nisa.engine.vector)
        total = new((128, 1), buffer=buffer) if tiles < 8 else kept[0][:, 0:1]
        for tile in kept:
            nisa.tensor_reduce(total, nl.add, tile[:, 1:], axis=1)

    execute(NeuronCore(found), kernel, (8,), {})
    with pytest.raises(
        CapacityError, match=f"{buffer.name.upper()} of {target} is full: kept8 .*alive: kept0"
    ) as error:
        execute(NeuronCore(found), kernel, (9,), {})
    assert "test_capacity.py:" in str(error.value)


@pytest.mark.parametrize("partitions, tiles", [(1, 4), (32, 4), (33, 2), (64, 2), (65, 1), (128, 1)])
def test_tiles_of_few_partitions_lie_side_by_side(partitions, tiles):
    found = find_target("trn2")
    columns = found.sbuf_bytes // 2 - 64  # of 16 bits: nearly a whole partition

    def kernel(count):
        kept = [nl.ndarray((partitions, columns), nl.bfloat16) for _ in range(count)]
        for tile in kept:
            nisa.memset(tile, 1.0)
        for tile in kept:
            nisa.tensor_scalar(tile[:, 0:1], tile[:, 1:2], nl.add, 1.0)

    execute(NeuronCore(found, functional=False), kernel, (tiles,), {})
    with pytest.raises(CapacityError, match="SBUF of trn2 is full"):
        execute(NeuronCore(found, functional=False), kernel, (tiles + 1,), {})

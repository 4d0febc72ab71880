"""What is assumed of loads: in which order they come, and that a tile in SBUF has one buffer."""

import nki
import nki.isa as nisa
import nki.language as nl
from trninfer import simulator
from trninfer.simulator import TensorSpec

TILES = 6
TABLE = TensorSpec((TILES * 128, 2048), "bfloat16")


@nki.jit
def sums(table, first_used_last):
    """Load all tiles of a table, then add them up: in the order of the loads, or the other way round."""
    tiles = []
    for t in range(TILES):
        tile = nl.ndarray((128, 2048), dtype=table.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=table[t * 128 : (t + 1) * 128, 0:2048], name=f"load {t}")
        tiles.append(tile)
    total = nl.ndarray((128, 2048), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(total, value=0.0)
    for t in range(TILES):
        tile = tiles[TILES - 1 - t] if first_used_last else tiles[t]
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
    out = nl.ndarray((128, 2048), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=total)
    return out


def issued(**more):
    """The loads in the order of their triggers."""
    run = simulator.run(sums, TABLE, functional=False, **more)
    loads = [event for event in run.timeline if event.name]
    return [event.name for event in sorted(loads, key=lambda event: event.issued_ns)], run.latency_us


def test_loads_come_in_the_order_in_which_they_are_used() -> None:
    names = [f"load {t}" for t in range(TILES)]
    forward, backward = issued(first_used_last=False), issued(first_used_last=True)
    assert forward[0] == names and backward[0] == names[::-1]
    assert forward[1] == backward[1]
    as_written, later = issued(first_used_last=True, constants={"loads_by_use": 0})
    assert as_written == names and later > backward[1]


@nki.jit
def streamed(table, buffers):
    """Add up the tiles of a table, loaded into so many buffers in turn."""
    tiles = [nl.ndarray((128, 2048), dtype=table.dtype, buffer=nl.sbuf) for _ in range(buffers)]
    total = nl.ndarray((128, 2048), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(total, value=0.0)
    for t in range(TILES):
        nisa.dma_copy(dst=tiles[t % buffers], src=table[t * 128 : (t + 1) * 128, 0:2048])
        nisa.tensor_tensor(dst=total, data1=total, data2=tiles[t % buffers], op=nl.add)
    out = nl.ndarray((128, 2048), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=total)
    return out


def test_a_load_waits_for_the_readers_of_its_tile() -> None:
    one, two, all_of_them = (
        simulator.run(streamed, TABLE, buffers=count, functional=False).latency_us for count in (1, 2, TILES)
    )
    assert one > two > all_of_them
    renamed = simulator.run(streamed, TABLE, buffers=1, functional=False, constants={"tile_renaming": 1})
    assert renamed.latency_us == all_of_them

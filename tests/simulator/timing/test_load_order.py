"""Assumptions about loads: their order, and that each tile in SBUF has one buffer."""

import nki
import nki.isa as nisa
import nki.language as nl
from trninfer import simulator
from trninfer.simulator import TensorSpec

TILES = 6
TABLE = TensorSpec((TILES * 128, 2048), "bfloat16")


@nki.jit
def sums(table, first_used_last):
    """Load all tiles of a table, then sum them, in the order of the loads or in reverse."""
    tiles = []
    for t in range(TILES):
        tile = nl.ndarray((128, table.shape[1]), dtype=table.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=table[t * 128 : (t + 1) * 128, :], name=f"load {t}")
        tiles.append(tile)
    total = nl.ndarray((128, table.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(total, value=0.0)
    for t in range(TILES):
        tile = tiles[TILES - 1 - t] if first_used_last else tiles[t]
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
    out = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=total)
    return out


def issued(table=TABLE, **more):
    """Return the loads in the order of their triggers."""
    run = simulator.run(sums, table, functional=False, **more)
    loads = [event for event in run.timeline if event.name]
    return [event.name for event in sorted(loads, key=lambda event: event.issued_ns)], run.latency_us


def test_loads_are_issued_in_order_of_use() -> None:
    names = [f"load {t}" for t in range(TILES)]
    forward, backward = issued(first_used_last=False), issued(first_used_last=True)
    assert forward[0] == names and backward[0] == names[::-1]
    assert forward[1] == backward[1]
    as_written, later = issued(first_used_last=True, constants={"loads_by_use": 0})
    assert as_written == names and later > backward[1]


def test_loads_with_descriptors_of_gpsimd_are_issued_in_order_of_use() -> None:
    """GpSimd executes everything in order, including loads in the order of their use."""
    narrow = TensorSpec((TILES * 128, 256), "bfloat16")
    assert {event.engine for event in simulator.run(sums, narrow, False, functional=False).timeline} >= {"gpsimd"}
    names, _ = issued(narrow, first_used_last=True)
    assert names == [f"load {t}" for t in range(TILES)][::-1]


@nki.jit
def row_first(table, row):
    """Use a row with prepared descriptors before the tiles of a table with generated ones."""
    first = nl.ndarray((1, 512), dtype=row.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=first, src=row, name="row")
    doubled = nl.ndarray((1, 512), dtype=row.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=doubled, data=first, op0=nl.multiply, operand0=2.0)
    total = nl.ndarray((128, 2048), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(total, value=0.0)
    for t in range(TILES):
        tile = nl.ndarray((128, 2048), dtype=table.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=table[t * 128 : (t + 1) * 128, :], dge_mode=nisa.dge_mode.hwdge, name=f"load {t}")
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
    out = nl.ndarray((129, 2048), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[0:128, :], src=total)
    nisa.dma_copy(dst=out[128:129, 0:512], src=doubled)
    return out


def test_order_of_loads_does_not_depend_on_descriptor_generation() -> None:
    """Otherwise the weights of all layers would be loaded before a network's input."""
    run = simulator.run(row_first, TABLE, TensorSpec((1, 512), "float32"), functional=False)
    assert {instruction.dma.dge for instruction in run.program if instruction.dma and instruction.dma.load} == {
        True,
        False,
    }
    loads = [event for event in run.timeline if event.name]
    assert min(loads, key=lambda event: event.start_ns).name == "row"


@nki.jit
def streamed(table, buffers):
    """Sum the tiles of a table, loaded into the given number of buffers in turn."""
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


@nki.jit
def chained(table, count):
    """Store the result of `count` consecutive copies of a tile, then load another, independent tile."""
    out = nl.ndarray((2, 128, 128), dtype=table.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 128), dtype=table.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=table[0:128, 0:128])
    for _ in range(count):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out[0], src=tile)
    other = nl.ndarray((128, 128), dtype=table.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=other, src=table[128:256, 0:128], name="load")
    nisa.dma_copy(dst=out[1], src=other)
    return out


def test_descriptors_that_gpsimd_makes_wait_for_no_store_before_them() -> None:
    """As shown by 64 loads and stores of k07, at 0.6 us each."""
    for dtype in ("bfloat16", "float32"):
        run = simulator.run(chained, TensorSpec((256, 128), dtype), count=40, functional=False)
        assert next(event.issued_ns for event in run.timeline if event.name == "load") < 2000


@nki.jit
def several(table, column, row):
    out = nl.ndarray((128, 1024), dtype=table.dtype, buffer=nl.shared_hbm)
    kept = nl.ndarray((128, 1024), dtype=table.dtype, buffer=nl.private_hbm)
    for source in (table, table[:, 0:256], column, row):
        tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=source)
        if source is table:
            nisa.dma_copy(dst=kept, src=tile)
            nisa.dma_copy(dst=out, src=tile)
            again = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=again, src=kept)
    return out


def test_method_of_descriptor_generation_if_a_kernel_specifies_none() -> None:
    def makers(dtype, target="trn2", dge=True):
        shapes = (128, 1024), (128, 1), (1, 64)
        arguments = [TensorSpec(shape, dtype) for shape in shapes]
        run = simulator.run(several, *arguments, target=target, dge=dge, functional=False)
        moved = [i.dma for i in run.program]
        return ["software" if t.software else "hardware" if t.dge else "prepared" for t in moved]

    whole = ["software", "hardware", "software", "hardware"]  # load, save, store, load the saved values
    assert makers("bfloat16") == makers("float32") == [*whole, "software", "software", "prepared"]
    assert set(makers("bfloat16", dge=False)) == set(makers("bfloat16", target="trn1")) == {"prepared"}

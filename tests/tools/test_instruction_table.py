"""The table of instructions: one row for each, derived from its declaration."""

from trninfer.simulator.machine.instruction import DECLARATIONS
from trninfer.tools.instruction_table import instructions_block


def rows():
    lines = instructions_block().splitlines()[2:]
    return {line.split("`")[1]: line.split(" | ") for line in lines}


def test_every_instruction_has_a_row():
    assert list(rows()) == sorted(DECLARATIONS)
    assert all(len(cells) == 5 for cells in rows().values())


def test_a_row_says_what_is_declared():
    _, engines, operands, rules, cost = rows()["range_select"]
    assert engines == "vector; from trn2 on"
    assert "`bound0`: SBUF or PSUM, float32, partitions of on_true_tile, one element in a partition" in operands
    assert "`reduce_res` (written, optional): " in operands and "`on_false_value`" not in operands
    assert rules.startswith("reduce_res requires a reduce_cmd that reduces.")
    assert cost.startswith("reduce and read: `dst`, `reduce_res`")
    assert rows()["rng"][1] == "vector, gpsimd (trn2)" and rows()["tensor_copy"][1] == "vector, scalar, gpsimd"

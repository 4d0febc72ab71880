"""A valid call of every instruction: the first target that supports it, and its operands by name."""

from typing import Any

import nki.isa as nisa
import nki.language as nl
from nki_tensors import hbm, new, psum

_WITH_LOAD = nisa.reduce_cmd.load_reduce


def _reduces(dst: str = "dst", data: str = "data") -> dict[str, Any]:
    return {dst: new((16, 32)), data: new((16, 32))}


CALLS = {
    "activate2": lambda: {**_reduces(), "op": nl.exp, "imm0": 2.0, "imm1": new((16, 1)), "op0": nl.multiply,
                          "op1": nl.add, "relu_param": 0.0, "reduce_op": nl.add, "reduce_res": new((16, 1)),
                          "reduce_cmd": nisa.reduce_cmd.reset_reduce},
    "activation": lambda: {**_reduces(), "op": nl.exp, "bias": new((16, 1)), "scale": 2.0, "reduce_op": nl.add,
                           "reduce_res": new((16, 1)), "reduce_cmd": nisa.reduce_cmd.reset_reduce},
    "activation_reduce": lambda: {**_reduces(), "op": nl.exp, "reduce_op": nl.add, "reduce_res": new((16, 1)),
                                  "bias": new((16, 1)), "scale": 2.0},
    "affine_select": lambda: {"dst": new((16, 32)), "pattern": [[1, 32]], "channel_multiplier": 1,
                              "on_true_tile": new((16, 32)), "on_false_value": 0.0, "cmp_op": nl.equal, "offset": 0},
    "bn_aggr": lambda: {"dst": new((16, 2)), "data": new((16, 6))},
    "bn_stats": lambda: {"dst": new((16, 6)), "data": new((16, 32))},
    "core_barrier": lambda: {"data": hbm((16, 32)), "cores": (0, 1), "engine": nisa.engine.gpsimd},
    "dma_compute": lambda: {"dst": hbm((16, 32)), "srcs": [hbm((16, 32)), hbm((16, 32))], "reduce_op": nl.add,
                            "oob_mode": nisa.oob_mode.error},
    "dma_copy": lambda: {"dst": new((16, 32)), "src": hbm((16, 32)), "oob_mode": nisa.oob_mode.error,
                         "dge_mode": nisa.dge_mode.unknown},
    "dma_transpose": lambda: {"dst": new((16, 32)), "src": hbm((32, 16)), "dge_mode": nisa.dge_mode.unknown,
                              "oob_mode": nisa.oob_mode.error},
    "dropout": lambda: {**_reduces(), "prob": 0.5},
    "exponential": lambda: {**_reduces("dst", "src"), "max_value": 1.0, "reduce_res": new((16, 1)),
                            "reduce_cmd": _WITH_LOAD, "reduce_init": new((16, 1))},
    "iota": lambda: {"dst": new((16, 32)), "pattern": [[1, 32]]},
    "local_gather": lambda: {"dst": new((16, 16)), "src_buffer": new((16, 32)), "index": new((16, 1), nl.uint16)},
    "max8": lambda: {"dst": new((16, 8)), "src": new((16, 32))},
    "memset": lambda: {"dst": new((16, 32)), "value": 0, "engine": nisa.engine.vector},
    "nc_find_index8": lambda: {"dst": new((16, 8), nl.uint32), "data": new((16, 32)), "vals": new((16, 8))},
    "nc_match_replace8": lambda: {**_reduces(), "vals": new((16, 8)), "imm": 0.0, "dst_idx": new((16, 8), nl.uint32)},
    "nc_matmul": lambda: {"dst": psum((16, 32)), "stationary": new((8, 16)), "moving": new((8, 32)),
                          "perf_mode": nisa.matmul_perf_mode.none},
    "nc_n_gather": lambda: {"dst": new((16, 8)), "data": new((16, 32)), "indices": new((16, 8), nl.uint32)},
    "nc_stream_shuffle": lambda: {"dst": new((32, 8)), "src": new((32, 8)), "shuffle_mask": list(range(32))},
    "nc_transpose": lambda: {"dst": psum((32, 16)), "data": new((16, 32)), "engine": nisa.engine.tensor},
    "nonzero_with_count": lambda: {"dst": new((16, 33), nl.int32), "src": new((16, 32)), "index_offset": 0,
                                   "padding_val": -1},
    "rand2": lambda: {"dst": new((16, 32)), "min": 0.0, "max": new((16, 1))},
    "rand_get_state": lambda: {"dst": new((16, 6), nl.uint32), "engine": nisa.engine.gpsimd},
    "rand_set_state": lambda: {"src_seeds": new((16, 6), nl.uint32), "engine": nisa.engine.gpsimd},
    "range_select": lambda: {**_reduces("dst", "on_true_tile"), "comp_op0": nl.greater, "comp_op1": nl.less,
                             "bound0": new((16, 1)), "bound1": new((16, 1)), "reduce_cmd": nisa.reduce_cmd.reset_reduce,
                             "reduce_res": new((16, 1)), "reduce_op": nl.maximum, "range_start": 0},
    "reciprocal": _reduces,
    "register_load": lambda: {"dst": nisa.register_alloc(0), "src": hbm((1, 1), nl.int32)},
    "register_move": lambda: {"dst": nisa.register_alloc(0), "src": 1},
    "register_store": lambda: {"dst": hbm((1, 1), nl.int32), "src": nisa.register_alloc(0)},
    "rng": lambda: {"dst": new((16, 32), nl.uint32), "engine": nisa.engine.vector},
    "scalar_load": lambda: {"src": hbm((1, 1), nl.int32)},
    "scalar_store": lambda: {"dst": hbm((1, 1), nl.int32), "value": nisa.scalar_load(hbm((1, 1), nl.int32))},
    "scalar_tensor_tensor": lambda: {**_reduces(), "op0": nl.add, "operand0": new((16, 1)), "op1": nl.add,
                                     "operand1": new((16, 32)), "reduce_op": nl.add, "reduce_res": new((16, 1)),
                                     "reduce_cmd": nisa.reduce_cmd.reset_reduce},
    "select_reduce": lambda: {"dst": new((16, 32)), "predicate": new((16, 32), nl.uint8), "on_true": new((16, 32)),
                              "on_false": 0.0, "reduce_res": new((16, 1)), "reduce_cmd": nisa.reduce_cmd.reset_reduce,
                              "reduce_op": nl.maximum},
    "sendrecv": lambda: {"src": new((16, 32)), "dst": new((16, 32)), "send_to_rank": 1, "recv_from_rank": 1,
                         "pipe_id": 0, "dma_engine": nisa.dma_engine.dma},
    "sendrecv_compute": lambda: {"src": new((16, 32)), "dst": new((16, 32)), "send_to_rank": 1, "recv_from_rank": 1,
                                 "reduce_op": nl.add},
    "sequence_bounds": lambda: {"dst": new((1, 2, 32), nl.int32), "segment_ids": new((1, 32), nl.int32)},
    "set_rng_seed": lambda: {"src_seeds": new((1, 1), nl.uint32)},
    "tensor_copy": lambda: {**_reduces("dst", "src"), "engine": nisa.engine.vector},
    "tensor_copy_predicated": lambda: {**_reduces("dst", "src"), "predicate": new((16, 32), nl.uint8)},
    "tensor_partition_reduce": lambda: {"dst": new((1, 32)), "op": nl.add, "data": new((16, 32))},
    "tensor_reduce": lambda: {"dst": new((16, 1)), "op": nl.add, "data": new((16, 32)), "axis": 1},
    "tensor_scalar": lambda: {**_reduces(), "op0": nl.add, "operand0": new((16, 1)), "op1": nl.multiply,
                              "operand1": 2.0, "engine": nisa.engine.vector},
    "tensor_scalar_cumulative": lambda: {**_reduces("dst", "src"), "op0": nl.add, "op1": nl.add, "imm0": 1.0,
                                         "imm1": new((16, 1)), "reduce_cmd": _WITH_LOAD},
    "tensor_scalar_reduce": lambda: {**_reduces(), "op0": nl.add, "operand0": 1.0, "reduce_op": nl.add,
                                     "reduce_res": new((16, 1)), "reduce_cmd": _WITH_LOAD, "reduce_init": new((16, 1))},
    "tensor_tensor": lambda: {"dst": new((16, 32)), "data1": new((16, 32)), "data2": new((16, 32)), "op": nl.add,
                              "engine": nisa.engine.vector},
    "tensor_tensor_scan": lambda: {"dst": new((16, 32)), "data0": new((16, 32)), "data1": new((16, 32)), "initial": 0.0,
                                   "op0": nl.add, "op1": nl.add},
    "topk": lambda: {"val_dst": new((16, 8), nl.bfloat16), "idx_dst": new((16, 8), nl.uint32),
                     "src": new((16, 32), nl.bfloat16), "n": 64},
}  # fmt: skip
"""Operands by instruction, to be made on a NeuronCore; both cores of a pair are needed by some (`PAIRED`)."""
PAIRED = ("core_barrier", "sendrecv", "sendrecv_compute")

"""Einsum of data and weights, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_chain import Chain, assert_imports, checked, ends
from trninfer.models import ModelError
from trninfer.models.importing import import_network


@pytest.mark.parametrize(
    ("equation", "shape", "weight", "features"),
    [
        ("bchw,oc->bohw", (3, 5, 7), (4, 3), 140),  # a 1x1 convolution
        ("bchw,oc->bhow", (3, 5, 7), (4, 3), 140),
        ("nctv,vw->nctw", (3, 5, 7), (7, 7), 105),  # a sum over a graph's neighbours, as in ST-GCN
        ("nkctv,kvw->nctw", (2, 3, 4, 5), (2, 5, 6), 72),
        ("...c, cd -> ...d", (3, 5, 7), (7, 4), 60),
        ("...A,AB->...B", (3, 5, 7), (7, 4), 60),
        ("abc,cde->abde", (3, 8), (8, 2, 5), 30),  # Keras's EinsumDense, to several heads
        ("abde,dec->abc", (3, 2, 5), (2, 5, 4), 12),
        ("byhwc,hkc->byhwk", (2, 3, 4, 5), (3, 7, 5), 168),  # relative positions for each row
        ("byhwc,wkc->byhwk", (2, 3, 4, 5), (4, 7, 5), 168),
        ("bhic,hcj->bjih", (3, 5, 4), (3, 4, 2), 30),
        ("bi,ij", (6,), (6, 4), 4),
        ("bij,ij->b", (5, 6), (5, 6), 1),
        ("bchw,ch->bchw", (3, 5, 7), (3, 5), 105),
        ("bchw,wc->bhcw", (3, 5, 7), (7, 3), 105),
        ("bi,i->bi", (6,), (6,), 6),
    ],
)
def test_data_and_weights(
    equation: str, shape: tuple[int, ...], weight: tuple[int, ...], features: int, tmp_path: Path
):
    chain = Chain(*shape) if len(shape) < 4 else Chain(shape[0] * shape[1], *shape[2:])
    if len(shape) == 4:
        chain.add("Reshape", chain.constant([-1, *shape]))
    chain.add("Einsum", chain.weight(*weight), equation=equation)
    if equation.endswith("->b"):
        chain.add("Reshape", chain.constant([-1, 1]))
        assert_imports(chain, tmp_path)
    else:
        ends(chain, features, tmp_path)


def test_weights_as_the_first_operand(tmp_path: Path) -> None:
    chain = Chain(5, 6)
    chain.add("Einsum", "x", first=chain.weight(4, 6), equation="oc,btc->bto")
    ends(chain, 20, tmp_path)


@pytest.mark.parametrize(
    ("equation", "weight", "says"),
    [
        ("bchw,bc->bhw", (2, 3), "is not supported; sums must be over axes"),
        ("bchw,bchw->bchw", (1, 3, 8, 8), "is not supported; sums must be over axes"),
        ("bchw,oc->bow", (4, 3), "is not supported; sums must be over axes"),
        ("bchw,oc->obhw", (4, 3), "is not supported; sums must be over axes"),
        ("bchw,oc->bohw", (4, 5), r"cannot multiply \[batch, 3, 8, 8\] by \[4, 5\] as 'bchw,oc->bohw'"),
        ("bcw,oc->bow", (4, 3), r"of \[batch, 3, 8, 8\] and weights \[4, 3\] is not supported"),
        ("bchw->bc", None, "it must be a product of data and one weight"),
    ],
)
def test_unsupported_einsum_is_refused(equation: str, weight: tuple[int, ...] | None, says: str, tmp_path: Path):
    chain = Chain(3, 8, 8)
    chain.add("Einsum", *([chain.weight(*weight)] if weight else []), equation=equation)
    with pytest.raises(ModelError, match=rf"node 'n0' \(Einsum\): .*{says}"):
        import_network(chain.save(tmp_path))


def test_two_values_of_the_input(tmp_path: Path) -> None:
    chain = Chain(3, 8)
    chain.add("Einsum", "x", equation="bij,bkj->bik")
    assert_imports(chain, tmp_path)


@pytest.mark.parametrize(
    ("equation", "first", "second"),
    [
        ("bqc,bchw->bqhw", (4, 6), (6, 3, 5)),  # masks of MaskFormer and EoMT
        ("bqc,bchw->bhwq", (4, 6), (6, 3, 5)),
        ("bchw,bkhw->bck", (4, 3, 5), (2, 3, 5)),
        ("bc,bchw->bhw", (6,), (6, 3, 5)),
        ("bhqc,bkhc->bhqk", (2, 4, 3), (5, 2, 3)),
        ("bnhc,bnjc->bnhj", (2, 4, 3), (2, 5, 3)),
        ("bchw,bc->bchw", (6, 3, 5), (6,)),  # a gate for each channel
        ("bchw,bhw->bwch", (6, 3, 5), (3, 5)),
        ("bi,bj->bij", (4,), (5,)),
    ],
)
def test_products_of_two_values(equation: str, first: tuple[int, ...], second: tuple[int, ...], tmp_path: Path) -> None:
    chain = Chain(7)
    values = []
    for shape in (first, second):
        size = int(np.prod(shape))
        chain.add("Gemm", chain.weight(7, size), chain.weight(size), first="x")
        values.append(chain.add("Reshape", chain.constant([-1, *shape])))
    chain.add("Einsum", values[1], first=values[0], equation=equation)
    assert_imports(chain, tmp_path)


@pytest.mark.parametrize(("exclusive", "reverse"), [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("axis", [1, 2, -1])
def test_cumulative_sums(axis: int, exclusive: int, reverse: int, tmp_path: Path) -> None:
    chain = Chain(3, 4, 5)
    chain.conv((3, 6), pads=[1] * 4)
    chain.add("CumSum", chain.constant(np.array(axis)), exclusive=exclusive, reverse=reverse)
    checked(chain.model(), tmp_path)

"""What the kernel is told of a layer."""

from dataclasses import fields

from trninfer.kernels.networks.layers import ProgramLayer
from trninfer.runtime.network.program import KernelLayer, Planned


def test_the_kernel_is_told_its_own_fields_in_their_order() -> None:
    names = [field.name for field in fields(KernelLayer)]
    assert [*names[:4], "rows", "columns", *names[4:]] == list(ProgramLayer.__annotations__)
    layer = ProgramLayer(*Planned("conv2d", "c", ((-1,),), 8, (3, 3), after=(8, 5, 7)).fields())
    assert (layer.channels, layer.rows, layer.columns, layer.kernel, layer.copies) == (8, 5, 7, (3, 3), (1, 0, 0))

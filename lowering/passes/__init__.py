"""Passes over the graph of a launch. Each file contains one class, which transforms a graph into a new one."""

from collections.abc import Sequence

from ...kernels.convolution.forms import Form
from .add_margins import AddMargins
from .assign_memory import AssignMemory
from .base import Pass, in_order
from .choose_forms import ChooseForms
from .fill_with_rows import FillWithRows
from .load_taps import LoadInput, LoadTaps
from .pack_images import PackImages
from .pack_rows import PackRows
from .pack_taps import PackTaps
from .pad_channels import PadChannels
from .put_classes_on_partitions import PutClassesOnPartitions
from .split_columns import SplitColumns
from .split_means import SplitMeans
from .split_phases import SplitPhases
from .store_as_fp8 import StoreAsFp8
from .stream_input import StreamInput


def all_passes(forms: Sequence[Form]) -> tuple[Pass, ...]:
    """Return the passes in execution order.

    `forms`: the convolution forms to choose from in addition to the direct one.
    """
    by_choice = (
        PadChannels(),
        FillWithRows(),
        PackRows(),
        SplitPhases(),
        SplitMeans(),
        PackImages(),
        AssignMemory(),
    )
    always = (LoadInput(), LoadTaps(), StreamInput(), SplitColumns(), AddMargins(forms))
    by_price = (ChooseForms(forms), StoreAsFp8(), PackTaps(), PutClassesOnPartitions())
    return in_order((*by_choice, *always, *by_price))

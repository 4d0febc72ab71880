"""Passes over the graph of a launch, a file each: classes that take a graph and return one."""

from collections.abc import Sequence

from ...kernels.convolution.forms import Form
from .add_margins import AddMargins
from .base import Pass, in_order
from .choose_forms import ChooseForms
from .group_input import GroupInput
from .load_taps import LoadInput, LoadTaps
from .narrow_values import NarrowValues
from .pack_images import PackImages
from .pack_rows import PackRows
from .pack_taps import PackTaps
from .pad_channels import PadChannels
from .place import PlaceValues
from .share_sums import ShareSums
from .split_columns import SplitColumns
from .split_means import SplitMeans
from .split_phases import SplitPhases
from .split_tails import SplitTails
from .turn_scores import TurnScores


def all_passes(forms: Sequence[Form]) -> tuple[Pass, ...]:
    """Return the passes in the order in which they run; `forms` of filters are chosen among, beside the direct one."""
    by_choice = (SplitTails(), PadChannels(), PackRows(), SplitPhases(), SplitMeans(), PackImages(), PlaceValues())
    always = (LoadInput(), LoadTaps(), GroupInput(), SplitColumns(), AddMargins(forms))
    by_price = (ChooseForms(forms), NarrowValues(), PackTaps(), TurnScores(), ShareSums())
    return in_order((*by_choice, *always, *by_price))

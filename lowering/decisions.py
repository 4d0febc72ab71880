"""The choices that define a launch. With them, the launch can be lowered again without evaluating any costs.

A choice is a value of one of the kinds below. Passes that have options for a node ask which one to use (`Question`);
the answer follows from earlier choices, or from costs (cheapest_options.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from .graph.graph import Graph, Node, NodeId

PADDED = ("all", "alone")  # values whose channels are padded: all, or only those that are neither added nor stacked
PACKED = ("expansions", "few_channels")  # values whose rows are packed: also the expansions of depthwise convolutions


class Kind(Enum):
    """The kinds of choices, each for a whole launch or for a node.

    If there is no choice of a kind, that transformation is skipped.

    BANDS, set for the last node of a region: the first node of the region, and the number of bands. FORM: a form, and
    the number of bytes reserved for combined inputs. STAGE, set for the last node of a stage (for the launch if it is
    the last stage): the number of images per pass along the free axis. FILL_TAPS: the distance, in partitions, between
    adjacent taps of the input; a single DMA loads all taps. WARM_UP: pairs (operation of the node, number of matmuls of
    zeros before it). The values of other kinds are numbers, or True.
    """

    PAD_CHANNELS = "pad_channels"  # one of PADDED
    FILL_WITH_ROWS = "fill_with_rows"
    PACK_ROWS = "pack_rows"  # one of PACKED
    SPLIT_PHASES = "split_phases"
    SPLIT_MEANS = "split_means"
    PACK_IMAGES = "pack_images"
    SPILL = "spill"  # spill a value to HBM
    BANDS = "bands"
    FORM = "form"
    FP8 = "fp8"  # store a value in 8 bits
    COPIES = "copies"  # copies of the input for its taps
    FILL_TAPS = "fill_taps"
    CLASSES_ON_PARTITIONS = "classes_on_partitions"
    STAGE = "stage"
    WARM_UP = "warm_up"


@dataclass(frozen=True)
class Choice:
    """A value chosen for a node, or for the whole launch if `node` is None."""

    kind: Kind
    node: NodeId | None = None
    value: Any = True  # hashable

    @property
    def _order(self) -> tuple[Any, ...]:
        return _KINDS[self.kind], self.node is not None, self.node or NodeId(-1), str(self.value)

    def to_json(self) -> dict[str, Any]:
        """Return the choice in a form that can be serialized as JSON."""
        return {"kind": self.kind.value, "node": _plain(self.node), "value": _plain(self.value)}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Choice:
        """Return the choice that `to_json` serialized. Raise TypeError, ValueError or KeyError for other data."""
        kind, node, value = (data[name] for name in ("kind", "node", "value"))
        return Choice(Kind(kind), None if node is None else _node(node), _READERS[Kind(kind)](value))


_KINDS = {kind: number for number, kind in enumerate(Kind)}


@dataclass(frozen=True)
class Option:
    """One possible answer to a question: replacements for nodes of the graph.

    `value`: the value of the choice; None for the default. `gain`: the minimum speedup over the default for which the
    option is chosen. Costs of options are compared after multiplication by it.
    """

    value: Any
    changed: Mapping[int, Node]
    gain: float = 1.0


@dataclass(frozen=True)
class Question:
    """The options of a pass for a node, the first of which is the default.

    `priced`: the nodes whose costs the options change. `is_end`: whether the options only shorten the end of an
    operation, which overlaps with the next image if there is one. `foreseen`: returns the graph in which to time a
    node, transformed as later passes would transform it.
    """

    kind: Kind
    graph: Graph
    number: int
    options: Sequence[Option]
    priced: Sequence[int]
    is_end: bool = False
    foreseen: Callable[[Graph, int], Graph] = lambda graph, number: graph

    def choice(self, option: Option) -> Choice:
        """Return the choice that corresponds to an option."""
        return Choice(self.kind, self.graph.nodes[self.number].id, option.value)


Ask = Callable[[Question], Option]


def one_of(ask: Ask, question: Question) -> Graph:
    """Return the graph of a question with the selected option applied."""
    return question.graph.replacing(ask(question).changed)


@dataclass(frozen=True)
class Decisions:
    """All the choices that define a launch.

    A choice without a node applies to every node that has no choice of that kind.
    """

    choices: tuple[Choice, ...] = ()
    _by_node: dict[tuple[Kind, NodeId | None], list[Any]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "choices", tuple(sorted(self.choices, key=lambda choice: choice._order)))
        for choice in self.choices:
            self._by_node.setdefault((choice.kind, choice.node), []).append(choice.value)

    @cached_property
    def _hash(self) -> int:
        return hash(self.choices)

    def __hash__(self) -> int:
        return self._hash

    def value(self, kind: Kind, node: NodeId | None = None, default: Any = 0) -> Any:
        """Return the value chosen for a node, or for the launch if `node` is None; `default` if there is none."""
        return self._by_node.get((kind, node), (default,))[0]

    def of(self, kind: Kind) -> dict[NodeId | None, Any]:
        """Return the values chosen for a kind, keyed by node."""
        return {choice.node: choice.value for choice in self.choices if choice.kind is kind}

    def having(self, *choices: Choice) -> Decisions:
        """Return the decisions with the given choices added.

        They replace choices of the same kind for the same node.
        """
        replaced = {(choice.kind, choice.node) for choice in choices}
        return Decisions((*(each for each in self.choices if (each.kind, each.node) not in replaced), *choices))

    def without(self, *kinds: Kind) -> Decisions:
        """Return the decisions without the choices of the given kinds."""
        return Decisions(tuple(choice for choice in self.choices if choice.kind not in kinds))

    def without_choice(self, choice: Choice) -> Decisions:
        """Return the decisions without a choice."""
        return Decisions(tuple(other for other in self.choices if other != choice))

    def answer(self, question: Question) -> Option:
        """Return the option that these decisions contain, or the default if they contain none."""
        node = question.graph.nodes[question.number].id
        for chosen in self._by_node.get((question.kind, node)) or self._by_node.get((question.kind, None)) or ():
            for option in question.options:
                if option.value == chosen:
                    return option
        return question.options[0]

    def to_json(self) -> list[dict[str, Any]]:
        """Return the decisions in a form that can be serialized as JSON."""
        return [choice.to_json() for choice in self.choices]

    @staticmethod
    def from_json(data: list[dict[str, Any]]) -> Decisions:
        """Return the decisions that `to_json` serialized. Raise TypeError, ValueError or KeyError for other data."""
        return Decisions(tuple(map(Choice.from_json, data)))


def _plain(value: Any) -> Any:
    if isinstance(value, NodeId):
        return [value.number, *value.parts]
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _node(data: Sequence[Any]) -> NodeId:
    number, *parts = data
    return NodeId(int(number), tuple(map(str, parts)))


def _form(data: Sequence[Any]) -> tuple[str, int]:
    form, budget_bytes = data
    return str(form), int(budget_bytes)


def _bands(data: Sequence[Any]) -> tuple[NodeId, int]:
    first, count = data
    return _node(first), int(count)


def _counts(data: Sequence[Any]) -> tuple[tuple[int, int], ...]:
    return tuple((int(number), int(count)) for number, count in data)


def _one_of(*values: str) -> Callable[[Any], str]:
    def read(data: Any) -> str:
        if data not in values:
            raise ValueError(f"{data!r}; expected one of {', '.join(values)}")
        return str(data)

    return read


def _true(data: Any) -> bool:
    if data is not True:
        raise ValueError(f"{data!r}; expected true")
    return True


_READERS: dict[Kind, Callable[[Any], Any]] = {
    **dict.fromkeys(Kind, _true),
    Kind.PAD_CHANNELS: _one_of(*PADDED),
    Kind.PACK_ROWS: _one_of(*PACKED),
    Kind.FORM: _form,
    Kind.BANDS: _bands,
    Kind.WARM_UP: _counts,
    **dict.fromkeys((Kind.PACK_IMAGES, Kind.FILL_TAPS, Kind.STAGE), int),
}

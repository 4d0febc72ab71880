"""Passes: transformations of a graph, run in dependency order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from ..decisions import Ask, Choice, Decisions, Kind
from ..graph.graph import Graph, Unsupported


class Pass(ABC):
    """A transformation of a graph, controlled by choices of some kinds.

    `needs`: the names of the passes that must run before it. `kinds`: the kinds of choices that it implements. `asks`:
    whether it has options for individual nodes, in which case the resulting graph depends on the answers to its
    questions.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    kinds: ClassVar[tuple[Kind, ...]] = ()
    asks: ClassVar[bool] = False

    @abstractmethod
    def apply(self, graph: Graph, decisions: Decisions, ask: Ask) -> Graph:
        """Return the transformed graph. Raise Unsupported if a choice does not apply."""

    def offers(self, graph: Graph, decisions: Decisions, pictures: int) -> Sequence[Choice]:
        """Return the choices that the launch may make; it makes at most one of them.

        `graph`: the result of earlier passes with `decisions`.
        """
        return ()

    def worthwhile(self, graphs: Mapping[Decisions, Graph]) -> Sequence[Decisions]:
        """Return the decisions that are worth pursuing.

        `graphs`: the result of the pass for all decisions, which are complete up to this pass.
        """
        return list(graphs)

    def near(self, graph: Graph, decisions: Decisions) -> Iterator[Decisions]:
        """Yield decisions that differ from `decisions` in one choice of the pass's kinds.

        `graph`: the result of all passes with `decisions`.
        """
        yield from ()


class SwitchedPass(Pass):
    """A pass that runs only if it is chosen; it has a single kind of choice."""

    def apply(self, graph: Graph, decisions: Decisions, ask: Ask) -> Graph:
        """See `Pass`."""
        if not decisions.value(self.kinds[0]):
            return graph
        changed = self.change(graph, decisions)
        if changed is None:
            raise Unsupported(f"{self.name} does not apply")
        return changed

    @abstractmethod
    def change(self, graph: Graph, decisions: Decisions) -> Graph | None:
        """Return the transformed graph, or None if the pass does not apply."""


def in_order(passes: Sequence[Pass]) -> tuple[Pass, ...]:
    """Sort the passes so that each follows the passes that it needs; otherwise, keep their order.

    Raise ValueError if the dependencies are circular.
    """
    left, ordered = list(passes), list[Pass]()
    while left:
        ran = {each.name for each in ordered}
        ready = next((each for each in left if ran.issuperset(each.needs)), None)
        if ready is None:
            raise ValueError(
                f"passes {', '.join(each.name for each in left)} depend on each other, or on a missing pass"
            )
        left.remove(ready)
        ordered.append(ready)
    return tuple(ordered)

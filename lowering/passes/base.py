"""Passes: steps from a graph to a graph, run in the order of their needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

from ..decisions import Ask, Choice, Decisions, Kind
from ..graph import Graph, Unsupported


class Pass(ABC):
    """A step from a graph to a graph, by choices of some kinds.

    `needs`: the names of the passes that must have run before. `kinds`: of the choices that it carries out. `asks`: it
    has options for nodes, so that its graph depends on who answers.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    kinds: ClassVar[tuple[Kind, ...]] = ()
    asks: ClassVar[bool] = False

    @abstractmethod
    def apply(self, graph: Graph, decisions: Decisions, ask: Ask) -> Graph:
        """Return the graph after the pass; Unsupported where a choice does not apply."""

    def offers(self, graph: Graph, decisions: Decisions, pictures: int) -> Sequence[Choice]:
        """Return the choices about the launch beside none, for a graph on which earlier passes ran by `decisions`."""
        return ()

    def is_forced(self, decisions: Decisions) -> bool:
        """True if earlier choices are worth nothing without one of its own."""
        return False

    def is_worth(self, graph: Graph, decisions: Decisions) -> bool:
        """True if the graph after the pass is worth pricing, not one that other choices give too."""
        return True

    def kept(self, states: Sequence[Decisions]) -> Sequence[Decisions]:
        """Return the decisions, of those up to the pass, that are worth going on with."""
        return states

    def near(self, graph: Graph, decisions: Decisions) -> Iterator[Decisions]:
        """Yield decisions that differ in one choice of its kinds; `graph`: after all passes by these decisions."""
        yield from ()


class SwitchedPass(Pass):
    """A pass that runs only if it is chosen, by the one kind of its choices."""

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
        """Return the changed graph; None where the pass does not apply."""


def in_order(passes: Sequence[Pass]) -> tuple[Pass, ...]:
    """Return passes so that each follows all that it needs, else as they come; ValueError where needs are circular."""
    left, found = list(passes), list[Pass]()
    while left:
        ran = {each.name for each in found}
        ready = next((each for each in left if ran.issuperset(each.needs)), None)
        if ready is None:
            raise ValueError(f"passes {', '.join(each.name for each in left)} need each other, or one that is missing")
        left.remove(ready)
        found.append(ready)
    return tuple(found)

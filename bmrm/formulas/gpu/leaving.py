"""The printer of loops and blocks that `break`, `continue` or `return` may leave, for the GPU.

What combines nothing lanes do on their own: leaving is a jump. If something in a loop or block is combined,
all lanes of a warp must arrive there together. Then it has a flag, whether this lane is still in it, which is
the mask of what is in it. A lane that leaves from a branch of its own clears the flags of all that it leaves,
and jumps to the end of this branch.

A pass that is to end early leaves long loops as if they had no more iterations, so that lanes still meet. So
does a row that has failed, since its loop may have lost its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from bmrm.formulas.analysis.schedule import has_combination
from bmrm.formulas.gpu.expressions import CudaExpressions, View
from bmrm.formulas.gpu.writer import CudaWriter
from bmrm.formulas.language.tree import Block, Loop, Statement, name_of, targets_left

APART = "apart"
"""Stands for the outermost of what lanes do on their own; no loop and no block has this name."""


class Around(NamedTuple):
    """A loop or block around a statement."""

    name: str
    flag: str
    """Whether a lane is still in it; "" if lanes leave by a jump to its end."""


class CudaLeaving(CudaExpressions):
    """Prints how lanes leave loops and blocks."""

    def __init__(self, writer: CudaWriter, view: View) -> None:
        super().__init__(writer, view)
        self.around: list[Around] = []
        self.apart = False
        """Whether lanes do something on their own; else they arrive together."""
        self._labels: dict[str, str] = {}
        """Labels at the ends of loops and blocks, by their names, to which there are jumps."""

    @contextmanager
    def may_be_left(self, node: Loop | Block, mask: str) -> Iterator[str]:
        """Print a loop or a block; yield its flag, "" if it has none."""
        name, flag = name_of(node), ""
        if name in self.facts.left and has_combination((node,)):
            flag = self.fresh("on")
            self.put(f"bool {flag} = {mask};")
        self.around.append(Around(name, flag))
        yield flag
        self.around.pop()
        self._end(name)

    @contextmanager
    def on_their_own(self) -> Iterator[None]:
        """Print what lanes do on their own."""
        outer, self.apart = self.apart, True
        yield
        self.apart = outer
        if not outer:
            self._end(APART)

    def _end(self, of: str) -> None:
        """Print the label at the end of something, if there is a jump to it."""
        if of in self._labels:
            self.put(f"{self._labels.pop(of)}:;")

    def leave(self, target: str, mask: str) -> None:
        """Print that lanes leave a loop or a block, and all in it."""
        place = [each.name for each in self.around].index(target)
        flags = [each.flag for each in self.around[place:] if each.flag]
        if flags:
            cleared = f"{' = '.join(flags)} = false;"
            self.put(cleared if self.apart else f"if ({mask}) {cleared}")
        if self.apart or not flags:
            end = APART if self.around[place].flag else target
            self.put(f"goto {self._labels.setdefault(end, self.fresh('end'))};")

    def without_those_gone(self, statement: Statement, mask: str) -> str:
        """Return the mask after a statement in which lanes may have left something around it."""
        if self.apart or not targets_left((statement,)) & self.facts.left:
            return mask
        flag = next(each.flag for each in reversed(self.around) if each.flag)
        if mask == flag:
            return mask
        still = self.fresh("still")
        self.put(f"const bool {still} = {mask} && {flag};")
        return still

    def go_on_if(self, flag: str, test: str) -> None:
        """Print that an iteration begins for lanes whose test holds; the loop ends if there are none."""
        self.put(f"{flag} = {flag} && {test};")
        self.put(f"if (!__any_sync(FULL, {flag})) break;")

    def look(self, node: Loop, flag: str = "", row: str = "row", times: int = 1) -> None:
        """Print at the end of some iterations of a long loop that it ends early.

        ``row`` is the lane's first, and ``times`` the number of iterations.
        """
        work = self.writer.schedule.looking.get(name_of(node))
        if work is None:
            return
        test = self.writer.is_to_end(row, work * times)
        if flag:
            self.put(f"if ({test}) {flag} = false;")
        elif has_combination((node,)) and not self.apart:
            self.put(f"if (__any_sync(FULL, {test})) break;")
        else:
            self.put(f"if ({test}) break;")

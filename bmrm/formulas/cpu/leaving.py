"""The printer of loops and blocks that `break`, `continue` or `return` may leave, for the CPU.

If all rows leave together, leaving is a jump. If rows leave one by one, a loop or block has a mask of its
own, of the lanes that are still in it. A lane that leaves is taken out of the masks of all that it leaves,
and what follows runs for the others. A loop goes on as long as it has a lane.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bmrm.formulas.cpu.expressions import LaneExpressions
from bmrm.formulas.language.tree import Statement, targets_left


class LaneLeaving(LaneExpressions):
    """Prints how lanes leave loops and blocks."""

    @contextmanager
    def may_be_left(self, name: str) -> Iterator[str]:
        """Print a loop or a block; yield where its mask is, "" if all rows leave it together."""
        outer = self.mask
        if name in self.left:
            on, kind = self.alloca(self.label("on"), f"<{self.W} x i1>"), f"<{self.W} x i1>"
            self.put(f"store {kind} {self.effect_mask()}, ptr {on}, align 8")
            self.on.append((name, on))
            yield on
            self.on.pop()
        elif name in self.targets:
            end = self.ends[name] = self.label("end")
            yield ""
            self.put(f"br label %{end}")
            self.place(end)
        else:
            yield ""
        self.mask = outer

    def still_on(self, on: str) -> str:
        """Return the lanes that are still in a loop or a block."""
        return self.new(f"load <{self.W} x i1>, ptr {on}, align 8")

    def leave(self, target: str) -> None:
        """Leave a loop or a block, and all in it."""
        if target not in self.left:
            self.put(f"br label %{self.ends[target]}")
            self.place(self.label("never"))
            return
        kind = f"<{self.W} x i1>"
        others = self.new(f"xor {kind} {self.effect_mask()}, splat (i1 true)")
        for name, on in reversed(self.on):
            self.put(
                f"store {kind} {self.new(f'and {kind} {self.still_on(on)}, {others}')}, ptr {on}, align 8"
            )
            if name == target:
                return

    def without_those_gone(self, statement: Statement) -> None:
        """Take the lanes out of the mask that have left something around a statement in it."""
        if targets_left((statement,)) & self.left:
            on = self.still_on(self.on[-1][1])
            self.mask = on if self.mask is None else self.new(f"and <{self.W} x i1> {self.mask}, {on}")

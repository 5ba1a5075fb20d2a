"""The printer of the first statements by register blocking: a lane computes some rows at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bmrm.formulas.analysis.loops import Best
from bmrm.formulas.analysis.schedule import BLOCKED_ROWS, BestOfGroups, Uniform
from bmrm.formulas.gpu.expressions import SIGNS, View
from bmrm.formulas.gpu.statements import CudaStatements
from bmrm.formulas.gpu.tiled_loop import TiledLoop
from bmrm.formulas.gpu.writer import CudaWriter
from bmrm.formulas.language.tree import For, Statement


class BlockedRows:
    """Prints the rows of a lane: row i has its own numbers under the names NAME_i.

    Parameters
    ----------
    writer : CudaWriter
    read_row : callable
        Prints how a row is read into the registers of a name.
    """

    def __init__(self, writer: CudaWriter, read_row: Callable[[str], None]) -> None:
        self.writer, self.read_row = writer, read_row
        self.put, self.open, self.close, self.fresh = writer.put, writer.open, writer.close, writer.fresh
        self.width = max(1, writer.sizes[writer.program.width])
        own = {name: writer.name(name) for name in writer.program.own_numbers()}
        self.rows = [
            CudaStatements(writer, View({name: text + end for name, text in own.items()}, f"x{end}"))
            for end in ("", *(f"_{row}" for row in range(1, BLOCKED_ROWS)))
        ]

    @contextmanager
    def each(self, row: int) -> Iterator[CudaStatements]:
        """Print what is for one of the rows."""
        self.open()
        self.writer.own_row(f"start + {row} * WARP" if row else "start", "start")
        yield self.rows[row]
        self.close()

    def print(self, body: tuple[Statement, ...]) -> None:
        for row, statements in enumerate(self.rows):
            if row:
                self.writer.declare_numbers(f"_{row}")
            self.put(f"T {statements.view.registers}[{self.width}];")
            with self.each(row):
                self.writer.row_address()
                self.read_row(statements.view.registers)
        for statement in body:
            if isinstance(statement, For):
                self.loop(statement)
                continue
            for row in range(BLOCKED_ROWS):
                with self.each(row) as statements:
                    statements.statement(statement, "here")

    def loop(self, node: For) -> None:
        """Print a loop whose iterations are for all rows of a lane."""
        first = self.rows[0]
        start, stop = first.expr(node.start, "true"), first.expr(node.stop, "true")
        how = self.writer.schedule.of(node)
        if isinstance(how, BestOfGroups):
            self.best_loop(node, how.best, start, stop)
            return
        assert isinstance(how, Uniform)
        if how.tiles:
            tiled = TiledLoop(first, node, how, first.count_at)
            tiled.print(start, stop, lambda: self.iteration(node), row="start + lane")
            return
        name, end = self.writer.name(node.name), self.fresh("end")
        if how.unroll:
            self.put(f"#pragma unroll {how.unroll}")
        self.open(f"for (whole {name} = {start}, {end} = {stop}; {name} < {end}; {name}++)")
        self.iteration(node)
        first.look(node, row="start + lane")
        self.close()

    def iteration(self, node: For) -> None:
        """Print an iteration of a loop for each row."""
        for row in range(BLOCKED_ROWS):
            with self.each(row) as statements:
                statements.block(node.body, "here")

    def best_loop(self, node: For, best: Best, start: str, stop: str) -> None:
        """Print a loop that looks for the best value, by groups of iterations.

        Only the best value of a group is compared with the best so far; at the end the iterations of the best
        group are computed again. Iterations that are left over follow one by one.
        """
        name, sign = self.writer.name(node.name), SIGNS[best.op]
        first, begin, end, item = map(self.fresh, ("first", "begin", "end", "item"))
        of_group = [self.fresh("best") for _ in self.rows]
        group = [self.fresh("group") for _ in self.rows]
        each_item = f"for (int {item} = 0; {item} < {best.group}; {item}++)"
        self.put(f"const whole {begin} = {start}, {end} = {stop};")
        self.put(f"whole {first} = {begin};")
        self.put(f"int {', '.join(f'{each} = -1' for each in group)};")
        self.open(f"for (; {first} + {best.group} <= {end}; {first} += {best.group})")
        self.put(f"T {', '.join(of_group)};")
        self.put("#pragma unroll")
        self.open(each_item)
        self.put(f"const whole {name} = {first} + {item};")
        least = ("fmin" if best.op == "lt" else "fmax") + ("f" if self.writer.real == "float" else "")
        for row in range(BLOCKED_ROWS):
            with self.each(row) as statements:
                statements.block(node.body[:-1], "here")
                value = f"T({statements.expr(best.value, 'here')})"
                self.put(f"{of_group[row]} = {item} ? {least}({of_group[row]}, {value}) : {value};")
        self.close()
        for row, statements in enumerate(self.rows):
            kept = statements.name(best.name)
            self.put(
                f"if ({of_group[row]} {sign} {kept}) "
                f"{kept} = {of_group[row]}, {group[row]} = int({first} - {begin});"
            )
        self.rows[0].look(node, row="start + lane", times=best.group)
        self.close()
        for row in range(BLOCKED_ROWS):
            with self.each(row) as statements:
                self.open(f"if ({group[row]} >= 0)")
                self.put(f"{statements.name(best.name)} = T({'INF' if best.op == 'lt' else '-INF'});")
                self.put("#pragma unroll")
                self.open(each_item)
                self.put(f"const whole {name} = {begin} + {group[row]} + {item};")
                statements.block(node.body, "here")
                self.close()
                self.close()
                self.put("#pragma unroll 1")
                self.open(f"for (whole {name} = {first}; {name} < {end}; {name}++)")
                statements.block(node.body, "here")
                statements.look(node)
                self.close()

    def next_row(self) -> None:
        """Print that the next row of the lane becomes the first."""
        for row in range(1, BLOCKED_ROWS):
            before = f"_{row - 1}" if row > 1 else ""
            for name in map(self.writer.name, self.writer.program.own_numbers()):
                self.put(f"{name}{before} = {name}_{row};")
            self.put("#pragma unroll")
            self.put(f"for (int f = 0; f < {self.width}; f++) x{before}[f] = x_{row}[f];")

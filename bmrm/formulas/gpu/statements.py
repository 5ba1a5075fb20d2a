"""The printer of statements for the GPU, each loop as the schedule says.

Branches and loops that depend on the row and hold a combination are masks, so that all lanes of a warp arrive
there together; others are branches.
"""

from __future__ import annotations

from bmrm.formulas.analysis.layout import OUTSIDE, Site
from bmrm.formulas.analysis.schedule import (
    WARP,
    Butterfly,
    ColumnLanes,
    Diverging,
    Ranked,
    Uniform,
    has_combination,
)
from bmrm.formulas.gpu.column_lanes import ColumnLoop
from bmrm.formulas.gpu.expressions import SIGNS, View, constant
from bmrm.formulas.gpu.leaving import CudaLeaving
from bmrm.formulas.gpu.operator_text import identity_text
from bmrm.formulas.gpu.tiled_loop import TiledLoop
from bmrm.formulas.gpu.writer import EVERY, CudaWriter
from bmrm.formulas.language.tree import (
    Argument,
    Block,
    Combine,
    For,
    ForStored,
    If,
    Leave,
    Set,
    SetItem,
    Size,
    Statement,
    While,
)


class CudaStatements(CudaLeaving):
    """Prints statements of a row."""

    def __init__(self, writer: CudaWriter, view: View) -> None:
        super().__init__(writer, view)
        self.ranks: dict[int, str] = {}
        """Variables with the ranks of lanes, by the identity of the loop that ranked them."""

    def block(self, body: tuple[Statement, ...], mask: str) -> None:
        for statement in body:
            self.statement(statement, mask)
            mask = self.without_those_gone(statement, mask)

    def statement(self, statement: Statement, mask: str) -> None:
        guard = "" if mask in EVERY else f"if ({mask}) "
        match statement:
            case Set(name, value):
                self.put(f"{guard}{self.name(name)} = {self.expr(value, mask)};")
            case SetItem():
                self.set_item(statement, mask)
            case Combine():
                self.combine(statement, mask)
            case For():
                with self.may_be_left(statement, mask) as flag:
                    self.loop(statement, mask, flag)
            case ForStored():
                with self.may_be_left(statement, mask) as flag:
                    self.stored_loop(statement, mask, flag)
            case While():
                with self.may_be_left(statement, mask) as flag:
                    self.while_loop(statement, mask, flag)
            case Block():
                with self.may_be_left(statement, mask) as flag:
                    self.once(statement, mask, flag)
            case Leave(target):
                self.leave(target, mask)
            case If():
                self.condition(statement, mask)

    def set_item(self, node: SetItem, mask: str) -> None:
        """Print an assignment to an element of an array of the row, or what is combined into one.

        In global memory a lane without a row has no array; others have one that nobody reads.
        """
        array, in_place = node.array, node.array in self.writer.schedule.in_place
        guard = "" if mask == "true" or (mask in EVERY and not in_place) else f"if ({mask}) "
        flat = self.flat(node.index, self.program.arrays[array].dims, array, node.line, mask)
        value, place = self.expr(node.value, mask), f"{self.name(array)}[{flat}]"
        if node.op is None:
            self.put(f"{guard}{place} = {value};")
            return
        kind, op = self.writer.element(array), self.writer.struct(node.op)
        self.put(f"{guard}{{ {kind}& to = {place}; to = {op}::of(to, {kind}({value})); }}")

    # --- loops

    def loop(self, node: For, mask: str, flag: str) -> None:
        start, stop = self.expr(node.start, mask), self.expr(node.stop, mask)
        end = self.fresh("end")
        match self.writer.schedule.of(node):
            case Butterfly() as how:
                self.butterfly_loop(node, how, start, stop, mask)
            case ColumnLanes() as how:
                ColumnLoop(self, node, how).print(start, stop, mask)
            case Ranked() as how:
                self.ranked_loop(node, how, start, stop, mask)
            case Diverging(waits) if not waits:
                name = self.name(node.name)
                test = f"{name} {'<' if node.step > 0 else '>'} {end}"
                head = f"whole {name} = {start}, {end} = {stop}; {test}; {self.next_count(node)}"
                with self.on_their_own():
                    self.open(f"if ({mask}) for ({head})")
                    self.block(node.body, "true")
                    self.look(node)
                    self.close()
            case Diverging():
                self.diverging_loop(node, end, mask, flag)
            case Uniform(tiles=tiles) as how if tiles:
                tiled = TiledLoop(self, node, how, self.count_at)
                tiled.print(start, stop, lambda: self.block(node.body, mask))
            case Uniform(unroll):
                name = self.name(node.name)
                if unroll:
                    self.put(f"#pragma unroll {unroll}")
                sign = "<" if node.step > 0 else ">"
                head = f"whole {name} = {start}, {end} = {stop}; {name} {sign} {end}"
                self.open(f"for ({head}; {self.next_count(node)})")
                self.block(node.body, mask)
                self.look(node)
                self.close()

    def diverging_loop(self, node: For, end: str, mask: str, flag: str) -> None:
        """Print a loop in which lanes wait for the last one."""
        name, after = self.name(node.name), self.next_count(node, lanes_wait=True)
        test = f"{name} {'<' if node.step > 0 else '>'} {end}"
        head = f"whole {name} = {self.guarded(node.start, mask)}, {end} = {self.guarded(node.stop, mask)}"
        if flag:
            active = flag
            self.open(f"for ({head};; {after})")
            self.go_on_if(flag, test)
        else:
            active, on = self.fresh("active"), f"{mask} && {test}"
            self.open(f"for ({head}; __any_sync(FULL, {on}); {after})")
            self.put(f"const bool {active} = {on};")
        self.block(node.body, active)
        self.look(node, flag)
        self.close()

    def while_loop(self, node: While, mask: str, flag: str) -> None:
        if flag:
            self.open("for (;;)")
            self.block(node.before, flag)
            self.go_on_if(flag, self.guarded(node.test, flag))
            self.block(node.body, flag)
            self.look(node, flag)
            self.close()
        elif self.facts.diverges(node):
            with self.on_their_own():
                self.repeat(f"if ({mask}) for (;;)", node, "true")
        else:
            self.repeat("for (;;)", node, mask)

    def repeat(self, head: str, node: While, mask: str) -> None:
        """Print a loop that a lane, or all of them together, ends by itself."""
        self.open(head)
        self.block(node.before, mask)
        self.put(f"if (!{self.expr(node.test, mask)}) break;")
        self.block(node.body, mask)
        self.look(node)
        self.close()

    def once(self, node: Block, mask: str, flag: str) -> None:
        """Print statements that lanes may leave."""
        if flag or node.name not in self.facts.left:
            self.open()
            self.block(node.body, flag or mask)
            self.close()
            return
        with self.on_their_own():
            self.open(f"if ({mask})")
            self.block(node.body, "true")
            self.close()

    def next_count(self, node: For, lanes_wait: bool = False) -> str:
        """Return how the counter of a loop goes on; that of a lane that waits for others goes on too."""
        name = self.name(node.name)
        if self.bounds.counts_near(node) or (abs(node.step) == 1 and not lanes_wait):
            return f"{name} += {node.step}"
        return f"{name} = next_count({name}, {constant(node.step, 'int')})"

    def butterfly_loop(self, node: For, how: Butterfly, start: str, stop: str, mask: str) -> None:
        """Print a loop by batches of iterations, after each of which the results of all are reduced."""
        count, name = how.count, self.name(node.name)
        if how.unrolled:
            self.put("#pragma unroll")
        first, end, item = self.fresh("first"), self.fresh("end"), self.fresh("item")
        self.open(f"for (whole {first} = {start}, {end} = {stop}; {first} < {end}; {first} += {count})")
        held = {}
        for each in how.sums:
            held[id(each)] = self.fresh("held")
            kind = self.writer.accumulated(self.program.arguments[each.array])
            self.put(f"{kind} {held[id(each)]}[{count}];")
        self.put("#pragma unroll")
        self.open(f"for (int {item} = 0; {item} < {count}; {item}++)")
        for each in how.sums:
            identity = identity_text(self.program.arguments[each.array])
            self.put(f"{held[id(each)]}[{item}] = {identity};")
        self.put(f"const whole {name} = {first} + {item};")
        self.open(f"if ({name} < {end})")
        for statement in node.body:
            if isinstance(statement, Combine):
                value, _ = self.value_of(statement, mask)
                self.put(f"{held[id(statement)]}[{item}] = {value};")
            else:
                self.statement(statement, mask)
        self.close()
        self.close()
        for each in how.sums:
            result, op = self.program.arguments[each.array], self.writer.struct(each.op)
            self.open()
            self.put(f"over_warp_each<{op}>({held[id(each)]}, lane);")
            self.put(f"const whole {name} = {first} + lane / {WARP // count};")
            flat = self.flat(each.index, result.dims, each.array, each.line, mask)
            self.put(f"{self.writer.accumulated(result)}& place = {self.name(each.array)}[{flat}];")
            here = f"{name} < {end} && lane % {WARP // count} == 0"
            self.put(f"if ({here}) place = {op}::of(place, {held[id(each)]}[0]);")
            self.close()
        self.put("__syncwarp();")
        self.look(node, times=count)
        self.close()

    def ranked_loop(self, node: For, how: Ranked, start: str, stop: str, mask: str) -> None:
        """Print a loop whose lanes are ranked once for all iterations."""
        rank, round_, end, name = *map(self.fresh, ("rank", "round", "end")), self.name(node.name)
        first, dims = how.sums[0], self.program.arguments[how.sums[0].array].dims
        mine = self.with_iteration(node, start, stop, mask)
        flat = self.flat(first.index[:-1], dims[:-1], first.array, first.line, mine)
        flat = f"({mine} ? {flat} : 0)" if self.strays(*first.index[:-1], mask=mask) else flat
        self.put(f"const int {rank} = rank_of({self.index(flat, dims)}, {mine}, lane);")
        self.open(f"for (int {round_} = 0; __any_sync(FULL, {rank} >= {round_}); {round_}++)")
        head = f"whole {name} = {start}, {end} = {stop}; {name} < {end}; {name}++"
        with self.on_their_own():
            self.open(f"if ({rank} == {round_}) for ({head})")
            for statement in node.body:
                if isinstance(statement, Combine):
                    self.combine_alone(statement)
                else:
                    self.statement(statement, "true")
            self.look(node)
            self.close()
        self.put("__syncwarp();")
        self.close()
        self.ranks[id(node)] = rank

    def stored_loop(self, node: ForStored, mask: str, flag: str) -> None:
        place = self.fresh("place")
        if not has_combination(node.body):
            with self.on_their_own():
                self.open(f"if ({mask}) for (whole {place} = row_first; {place} < row_last; {place}++)")
                self.stored_iteration(node, place, "true")
            return
        if flag:
            self.open(f"for (whole {place} = row_first;; {place}++)")
            self.go_on_if(flag, f"{place} < row_last")
            self.stored_iteration(node, place, flag, flag)
            return
        inner, on = self.fresh("active"), f"{mask} && {place} < row_last"
        self.open(f"for (whole {place} = row_first; __any_sync(FULL, {on}); {place}++)")
        self.put(f"const bool {inner} = {on};")
        self.stored_iteration(node, place, inner)

    def stored_iteration(self, node: ForStored, place: str, inner: str, flag: str = "") -> None:
        """Print an iteration of a loop over stored values, and the end of the loop."""
        index, value, writer, combined = (
            self.name(node.index),
            self.name(node.value),
            self.writer,
            inner != "true",
        )
        where = f"({inner} ? {place} : 0)" if combined else place
        columns = f"((const {writer.column}*){writer.slot('columns')})"
        stored = f"T(((const {writer.item}*){writer.slot('values')})[{where}])" if writer.item else "T(1)"
        empty = f"{inner} ? " if combined else ""
        other = " : 0" if combined else ""
        self.put(f"const whole {index} = {empty}whole({columns}[{where}]){other};")
        self.put(f"{value} = {empty}{stored}{' : T(0)' if combined else ''};")
        self.block(node.body, inner)
        self.look(node, flag)
        self.close()

    def condition(self, node: If, mask: str) -> None:
        test = self.expr(node.test, mask)
        if not self.facts.varies(node.test):
            self.open(f"if ({test})")
            self.block(node.body, mask)
            if node.orelse:
                self.writer.reopen("else")
                self.block(node.orelse, mask)
            self.close()
            return
        yes, no = self.fresh("yes"), self.fresh("no")
        self.put(f"const bool {yes} = {mask} && {test};")
        if node.orelse:
            self.put(f"const bool {no} = {mask} && !{yes};")
        for flag, body in ((yes, node.body), (no, node.orelse)):
            if not body:
                continue
            if has_combination(body):
                self.open(f"if (__any_sync(FULL, {flag}))")
                self.block(body, flag)
                self.close()
                continue
            with self.on_their_own():
                self.open(f"if ({flag})")
                self.block(body, "true")
                self.close()

    # --- combining

    def value_of(self, node: Combine, mask: str) -> tuple[str, str]:
        """Print a value to combine, the identity in lanes that take no part; return it and the others."""
        result = self.program.arguments[node.array]
        kind = self.writer.accumulated(result)
        value, flag = self.fresh("value"), self.fresh("part")
        self.put(f"{kind} {value} = {kind}({self.guarded(node.value, mask)});")
        number = f" && {value} == {value}" if node.op.order and kind == "double" else ""
        self.put(f"const bool {flag} = {mask}{number};")
        if not node.others:
            self.put(f"if (!{flag}) {value} = {identity_text(result)};")
        return value, flag

    def combine(self, node: Combine, mask: str) -> None:
        result, name = self.program.arguments[node.array], self.name(node.array)
        op = self.writer.struct(node.op)
        if node.array in self.writer.schedule.counters:
            self.count(node, mask)
            return
        value, flag = self.value_of(node, mask)
        if node.others:
            self.combine_extremum(node, result, value, flag, mask)
            return
        if not result.dims:
            self.put(f"{name} = {op}::of({name}, {value});")
            return
        flat = self.target_of(node, result.dims, mask)
        if not self.facts.varies(*node.index):
            self.put(f"combine_same<{op}>({name} + {flat}, {value}, lane);")
            return
        ranked_by = self.writer.schedule.ranked_by.get(id(node))
        if ranked_by is None:
            rank = self.fresh("rank")
            self.put(f"const int {rank} = rank_of({self.index(flat, result.dims)}, {flag}, lane);")
        else:
            rank = self.ranks[ranked_by]
        self.put(f"combine_bins<{op}>({name}, {flat}, {value}, {rank});")

    def count(self, node: Combine, mask: str) -> None:
        """Add to a counter of 32 bits, by an atomic operation: the sum is the same in any order.

        Lanes that take no part add to a place after the others: that costs less than a branch.
        """
        result, name = self.program.arguments[node.array], self.name(node.array)
        value = f"int({self.guarded(node.value, mask)})"
        if (tried := self.writer.tried) is not None:
            places, values = tried.counts[id(node)]
            for place, index in zip(places, node.index, strict=True):
                self.put(f"{place}[{tried.number}] = {self.guarded(index, mask)};")
            self.put(f"{values}[{tried.number}] = {value};")
            return
        if not self.facts.varies(*node.index):
            place, all_lanes = self.target_of(node, result.dims, mask), self.fresh("value")
            self.put(f"const int {all_lanes} = over_warp<Sum>({mask} ? {value} : 0);")
            self.put(f"if (lane == 0) atomicAdd({name} + {place}, {all_lanes});")
            return
        self.count_at(node, [self.guarded(each, mask) for each in node.index], value, mask)

    def count_at(self, node: Combine, indices: list[str], value: str, mask: str) -> None:
        """Add to the counter that the indices say."""
        result, name = self.program.arguments[node.array], self.name(node.array)
        place, test = self.place_or_failure(node, indices, result.dims, mask)
        if test != "true":
            count = self.writer.number(self.writer.count(result.dims), f"count {result.name}")
            place = f"({test} ? int({place}) : int({count}))"
        self.put(f"atomicAdd({name} + {place}, {value});")

    def place_or_failure(
        self, node: Combine, indices: list[str], dims: tuple[Size, ...], mask: str
    ) -> tuple[str, str]:
        """Return the place of what is combined, and the test whether it is one; a row keeps its failures."""
        if not self.writer.keeps_failures:
            return self.target_of(node, dims, mask), mask
        found, test = "", mask
        for each, text, size in zip(node.index, indices, dims, strict=True):
            if not self.bounds.inside(each, size):
                at, after = self.fresh("at"), ""
                self.put(f"const whole {at} = {text};")
                if not self.bounds.below(each, size):
                    after = f" | ({self.writer.size(size)} - 1 - {at})"
                outside = self.fresh("outside")
                self.put(f"const int {outside} = int(({at}{after}) >> 32);")
                flag = self.writer.kept_failure(Site(node.line, OUTSIDE, node.array, size))
                guard = "" if mask in EVERY else f"if ({mask}) "
                self.put(f"{guard}{flag} |= {outside};")
                text, test = at, f"{test} && {outside} >= 0"
            found = f"({found} * {self.writer.size(size)} + {text})" if found else text
        return found, test

    def combine_alone(self, node: Combine) -> None:
        """Print the combination of a lane that no other lane disturbs."""
        result, op = self.program.arguments[node.array], self.writer.struct(node.op)
        value, _ = self.value_of(node, "true")
        flat, place = self.target_of(node, result.dims, "true"), self.fresh("place")
        self.put(f"{self.writer.accumulated(result)}& {place} = {self.name(node.array)}[{flat}];")
        self.put(f"{place} = {op}::of({place}, {value});")

    def target_of(self, node: Combine, dims: tuple[Size, ...], mask: str) -> str:
        """Return the place of what is combined."""
        flat = self.flat(node.index, dims, node.array, node.line, mask)
        return f"({mask} ? {flat} : 0)" if self.strays(*node.index, mask=mask) else flat

    def combine_extremum(self, node: Combine, result: Argument, value: str, flag: str, mask: str) -> None:
        """Keep the best value, and what goes with it; of equal values the one of the earliest row."""
        name, sign = self.name(node.array), SIGNS[node.op.order]
        number = self.fresh("row")
        self.put(f"whole {number} = {flag} ? number + row : GREATEST_WHOLE;")
        others = []
        for other, expr in node.others:
            held = self.fresh("other")
            type_ = self.writer.accumulated(self.program.arguments[other])
            self.put(f"{type_} {held} = {type_}({self.guarded(expr, mask)});")
            others.append((other, held))
        at = self.fresh("at")
        flat = self.target_of(node, result.dims, mask)
        self.put(f"const whole {at} = {flat};")
        place_ = f"[{at}]" if result.dims else ""

        def better(new: str, row: str, old: str, before: str) -> str:
            return f"{new} {sign} {old} || ({new} == {old} && {row} < {before} && {before} != GREATEST_WHOLE)"

        def keep() -> None:
            self.put(f"{name}{place_} = {value};")
            self.put(f"{name}_row{place_} = {number};")
            for other, held in others:
                self.put(f"{self.name(other)}{place_} = {held};")

        if self.facts.varies(*node.index):
            rank, round_ = self.fresh("rank"), self.fresh("round")
            self.put(f"const int {rank} = rank_of({self.index(at, result.dims)}, {flag}, lane);")
            self.open(f"for (int {round_} = 0; __any_sync(FULL, {rank} >= {round_}); {round_}++)")
            test = better(value, number, f"{name}{place_}", f"{name}_row{place_}")
            self.open(f"if ({rank} == {round_} && ({test}))")
            keep()
            self.close()
            self.put("__syncwarp();")
            self.close()
            return
        winner = self.fresh("winner")
        self.put(f"if (!{flag}) {value} = {identity_text(result)};")
        self.put(f"int {winner} = lane;")
        self.put(f"best_of_warp<{result.combined_by.struct}>({value}, {number}, {winner});")
        for _, held in others:
            self.put(f"{held} = __shfl_sync(FULL, {held}, {winner});")
        taken = f"{number} != GREATEST_WHOLE && "
        test = better(value, number, f"{name}{place_}", f"{name}_row{place_}")
        # A number is kept by every lane, an element of an array by one.
        who = "lane == 0 && " if result.dims else ""
        self.open(f"if ({who}{taken}({test}))")
        keep()
        self.close()
        self.put("__syncwarp();")

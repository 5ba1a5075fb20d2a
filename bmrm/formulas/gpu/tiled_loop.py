"""The printer of a loop that copies tiles of parameters into shared memory: see `analysis/tiles.py`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bmrm.formulas.analysis.schedule import Uniform
from bmrm.formulas.gpu.leaving import CudaLeaving
from bmrm.formulas.gpu.writer import CudaWriter
from bmrm.formulas.language.tree import For


def declare_tiles(writer: CudaWriter) -> None:
    """Print where the tiles of this warp are."""
    for name, tile in writer.schedule.tiles.items():
        kind, own = writer.stored(writer.program.arguments[name].type), writer.name(name)
        writer.put(f"alignas(16) __shared__ {kind} {own}_tiles[WARPS][{tile.rows * tile.stride}];")
        writer.put(f"{kind}* const {own}_tile = {own}_tiles[warp];")


@contextmanager
def over_tiles(
    around: CudaLeaving, node: For, how: Uniform, start: str, stop: str, row: str = "row"
) -> Iterator[None]:
    """Print a loop over tiles, and in it the iterations of a tile around what is printed inside.

    ``row`` is the lane's first.
    """
    writer = around.writer
    tiles = {name: writer.schedule.tiles[name] for name in how.tiles}
    rows = min(tile.rows for tile in tiles.values())
    first, end, some, item = map(writer.fresh, ("first", "end", "some", "item"))
    writer.open(f"for (whole {first} = {start}, {end} = {stop}; {first} < {end}; {first} += {rows})")
    writer.put(f"const int {some} = int(least<whole>({end} - {first}, {rows}));")
    writer.put("__syncwarp();")
    for name, tile in tiles.items():
        own, each = writer.name(name), tile.numbers
        place = f"q / {each} * {tile.stride} + q % {each}" if tile.stride > each else "q"
        kind = writer.stored(writer.program.arguments[name].type)
        writer.put("#pragma unroll")
        writer.open(f"for (int q = lane; q < {rows * each}; q += WARP)")
        writer.put(f"if (q < {some} * {each}) {own}_tile[{place}] = {kind}({own}[{first} * {each} + q]);")
        writer.close()
    writer.put("__syncwarp();")
    if how.unroll:
        writer.put(f"#pragma unroll {how.unroll}")
    writer.open(f"for (int {item} = 0; {item} < {some}; {item}++)")
    writer.put(f"const whole {writer.name(node.name)} = {first} + {item};")
    for name, tile in tiles.items():
        kind, of_item = writer.stored(writer.program.arguments[name].type), f"{writer.name(name)}_{item}"
        at = f"{writer.name(name)}_tile + {item} * {tile.stride}"
        if tile.in_registers:
            writer.put(f"{kind} {of_item}[{tile.stride}];")
            writer.put(f"read_neighbours<{kind}, {tile.stride}>({at}, {of_item});")
        else:
            writer.put(f"const {kind}* const {of_item} = {at};")
        writer.rows_of_tiles[name] = node.name, of_item
    yield
    for name in tiles:
        del writer.rows_of_tiles[name]
    writer.close()
    around.look(node, row=row, times=rows)
    writer.close()

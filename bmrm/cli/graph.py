"""``bmrm-graph``: PageRank, random walks and HITS of a graph in a file."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from bmrm.cli.exits import Exit, check_apart, reading
from bmrm.cli.ranks import fail_together, is_first, run_command_on_ranks
from bmrm.cli.results import best_so_far, print_json, showing
from bmrm.errors import DataError, ParameterError, escape_unprintable

if TYPE_CHECKING:
    import argparse

    from bmrm.base.progress import ProgressStep
    from bmrm.cli.signals import CommandInterrupts
    from bmrm.distributed import Group
    from bmrm.graph.fixed_point import IterationProgress
    from bmrm.graph.graph import Graph
    from bmrm.graph.memory import GraphSize
    from bmrm.matrix.gpu.placement import Placement

PROGRAM = "bmrm-graph"
_EXITS = {"converged": Exit.OK, "interrupted": Exit.INTERRUPTED}
_WEIGHTED = re.compile(r"(.*?)[\t,; ]+([^\t,; ]+)")  # a line of seeds with a weight
_MAX_LABELS_BYTES = 1 << 30  # of a file of queries or seeds, which is untrusted


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command as `run_command_on_ranks` does."""
    return run_command_on_ranks(PROGRAM, graph, argv)


def graph(argv: Sequence[str], interrupts: CommandInterrupts, group: Group | None = None) -> int:
    """Run the command, on the ranks of a group if there is one, and return the exit code."""
    from bmrm.cli.commands import GRAPH
    from bmrm.cli.parsing import CommandParser

    options = CommandParser(GRAPH).parse_words(argv)
    if group is not None:
        _check_alike(options, group)
    with fail_together(group):
        _check(options)
    interrupts.importing(
        "bmrm.graph.page_rank",
        "bmrm.graph.walk_with_restart",
        "bmrm.graph.hubs_authorities",
        "bmrm.graph.read",
        "bmrm.cli.reading_progress",
    )
    if options.dry_run:
        return _dry_run(options, interrupts, group)
    from bmrm.cli.reading_progress import reading_step
    from bmrm.graph import read_graph

    step = reading_step(options.edges, afterwards="building the graph")
    with interrupts.opened(), showing(options, step), reading(options.edges):
        found = read_graph(
            options.edges,
            **_read_options(options),
            cache=options.cache,
            comm=group,
            device=options.device,
            gpu_mem=options.gpu_mem,
        )
    code = _TASKS[options.task](options, found, group)
    if not options.json and is_first(group):
        from bmrm.base.progress import print_notice

        for note in found.notes:
            print_notice(f"{PROGRAM}: note: {note}", quiet=options.quiet)
    return code


def _dry_run(options: argparse.Namespace, interrupts: CommandInterrupts, group: Group | None) -> int:
    """Print the bytes of each part of the task, on several ranks of each rank."""
    from bmrm.base.units import size_text
    from bmrm.cli.reading_progress import reading_step
    from bmrm.graph.backends.host import HOST_BATCH
    from bmrm.graph.memory import predict_bytes

    found: list[GraphSize] = []
    with fail_together(group), interrupts.opened(), showing(options, reading_step(options.edges)):
        if is_first(group):
            with reading(options.edges):
                found.append(_measure(options))
    if not found:
        return Exit.OK
    size, ranks = found[0], 1 if group is None else group.size
    parts = predict_bytes(size, options.task, HOST_BATCH if options.task == "rwr" else 1, ranks)
    if options.json:
        print_json({"nodes": size.n_nodes, "edges": size.n_edges, "ranks": ranks, "bytes": parts})
        return Exit.OK
    each = f"; at most, on each of {ranks} ranks" if ranks > 1 else "; at most"
    print(f"{size.n_nodes} nodes, {size.n_edges} edges in the file{each}")
    width = max(map(len, parts))
    for part, count in parts.items():
        print(f"{part:{width}}  {size_text(count)}")
    return Exit.OK


def _measure(options: argparse.Namespace) -> GraphSize:
    """Count nodes and edges: of text in chunks, of other files by reading them."""
    from bmrm.graph.read import measure_graph

    return measure_graph(options.edges, **_read_options(options))


def _read_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return how EDGES is read, by the keywords of `read_graph`."""
    return {
        "format": options.format,
        "directed": options.directed,
        "weights": options.weighted,
        "labels": options.labels,
        "columns": None if options.columns is None else [name.strip() for name in options.columns.split(",")],
        "threads": options.threads,
    }


def _check_alike(options: argparse.Namespace, group: Group) -> None:
    """Raise for options that have no meaning on several ranks, or that differ between ranks."""
    from bmrm.distributed.options import check_alike

    if options.cache:
        raise ParameterError("--cache: only without MPI; start the command without mpiexec")
    may_differ = ("cpu_share", "threads", "json", "quiet", "verbose")
    shared = {name: value for name, value in vars(options).items() if name not in may_differ}
    check_alike(group, {name.replace("_", "-"): value for name, value in shared.items()}, "--")


def _write(group: Group | None, write: Callable[[], None]) -> None:
    """Write a file, on several ranks on the first of them."""
    with fail_together(group):
        if is_first(group):
            write()


def _check(options: argparse.Namespace) -> None:
    """Raise for options that do not fit the task, before anything is read."""
    wrong = {
        "--seeds": options.seeds is not None and options.task != "pagerank",
        "--queries": options.queries is not None and options.task != "rwr",
        "--plot": options.plot is not None and options.task not in ("pagerank", "hits"),
        "-o": options.output is not None and options.task == "info",
        "--damping": options.damping is not None and options.task in ("hits", "info"),
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise ParameterError(f"{name}: found with {options.task}, which does not use it")
    if options.task == "rwr" and options.queries is None:
        raise ParameterError("--queries: found none, expected the nodes from which the walks start")
    if options.output is not None:
        if os.path.splitext(options.output)[1] not in (".tsv", ".npz", ".parquet"):
            raise ParameterError(f"-o {options.output}: expected a file *.tsv, *.npz or *.parquet")
        check_apart(options.output, {"EDGES": options.edges})
    if options.plot is not None:
        from bmrm.base.figures import check_suffix

        check_suffix(options.plot)
        check_apart(options.plot, {"EDGES": options.edges})


class _Watch:
    """The callback of an iteration; ``step`` is what the progress line shows."""

    def __init__(self, tol: float) -> None:
        from bmrm.base.progress import ProgressStep

        self._tol, self._first = tol, math.inf
        self._newest = ProgressStep(("preparing the walks",))

    def __call__(self, state: IterationProgress) -> None:
        from bmrm.base.progress import ProgressStep, logarithmic_share

        if not math.isfinite(self._first):
            self._first = state.error_bound
        words = (f"iteration {state.iteration}", f"error at most {state.error_bound:.2e}")
        self._newest = ProgressStep(words, logarithmic_share(self._first, state.error_bound, self._tol))

    def step(self) -> ProgressStep:
        return self._newest


def _limits(options: argparse.Namespace) -> dict[str, Any]:
    found = {
        "tol": options.tol,
        "max_time": options.max_time,
        "device": options.device,
        "gpu_mem": options.gpu_mem,
        "cpu_share": options.cpu_share,
    }
    return found if options.max_iter is None else found | {"max_iter": options.max_iter}


def _rank(options: argparse.Namespace, found: Graph, group: Group | None) -> int:
    """Print PageRank."""
    from bmrm.graph import pagerank

    watch = _Watch(options.tol)
    seeds = None
    if options.seeds is not None:
        with fail_together(group):
            seeds = _seeds(options.seeds, found)
    with showing(options, watch.step):
        ranking = best_so_far(
            lambda: pagerank(
                found,
                0.85 if options.damping is None else options.damping,
                personalization=seeds,
                method=options.method,
                callback=watch,
                **_limits(options),
            )
        )
    if options.output is not None:
        _write(group, lambda: ranking.save(options.output))
    if options.plot is not None:
        _plot(options, found, group, ranking.scores, "PageRank")
    if options.json:
        print_json(
            {
                **_facts(
                    ranking, "error_bound", "residual", "proven", "n_iter", "n_products", "status", "seconds"
                ),
                **_place(ranking.placement),
                "nodes": found.n_nodes,
                "edges": found.n_edges,
                "notes": found.notes,
                "top": [list(pair) for pair in ranking.top(options.top)],
            }
        )
    else:
        _print_table(ranking.top(options.top), ranking.error_bound, ranking.proven)
        print(
            f"{ranking.status}: the scores are within {ranking.error_bound:.2e} in all, the order of the "
            f"first {ranking.proven} is proven; {ranking.n_iter} iterations, on {ranking.placement.device}, "
            f"{ranking.seconds:.3f} s"
        )
    return _EXITS.get(ranking.status, Exit.LIMIT)


def _walk(options: argparse.Namespace, found: Graph, group: Group | None) -> int:
    """Print random walks with restart."""
    from bmrm.graph import random_walk

    watch = _Watch(options.tol)
    with fail_together(group):
        queries = _nodes("--queries", options.queries, found)
    with showing(options, watch.step):
        walks = best_so_far(
            lambda: random_walk(
                found,
                queries,
                0.9 if options.damping is None else options.damping,
                top=options.top,
                method=options.method,
                callback=watch,
                **_limits(options),
            )
        )
    lists = [walks.top(number) for number in range(len(walks.queries))]
    if options.output is not None:
        _write(group, lambda: walks.save(options.output))
    if options.json:
        each = [
            {
                "query": query,
                "status": walks.status[number],
                "stopped": walks.stopped(number),
                "error_bound": float(walks.error_bound[number]),
                "proven": int(walks.proven[number]),
                "top": lists[number],
            }
            for number, query in enumerate(walks.queries)
        ]
        print_json(
            {
                "queries": each,
                **_place(walks.placement),
                "notes": found.notes,
                "n_products": walks.n_products,
                "seconds": walks.seconds,
            }
        )
    else:
        for number, query in enumerate(walks.queries):
            why = f"{walks.status[number]}: {walks.stopped(number)}"
            print(f"from {escape_unprintable(str(query))}: {why}")
            _print_table(lists[number], walks.error_bound[number], int(walks.proven[number]))
    worst = [_EXITS.get(status, Exit.LIMIT) for status in walks.status]
    return max(worst, default=Exit.OK)


def _hits(options: argparse.Namespace, found: Graph, group: Group | None) -> int:
    """Print hubs and authorities."""
    from bmrm.base.tables import format_table
    from bmrm.graph import hits

    with showing(options, "hubs and authorities"):
        scores = best_so_far(lambda: hits(found, **_limits(options)))
    if options.output is not None:
        _write(group, lambda: scores.save(options.output))
    if options.plot is not None:
        _plot(options, found, group, scores.authorities, "authority")
    sides = [scores.top(options.top, what) for what in ("authorities", "hubs")]
    if options.json:
        names = "singular_value", "gap", "residual", "error_estimate", "unique", "n_iter", "status", "seconds"
        facts = {**_facts(scores, *names), **_place(scores.placement), "notes": found.notes}
        print_json({**facts, "authorities": sides[0], "hubs": sides[1]})
    else:
        rows = [
            [str(rank), _text(one[0]), f"{one[1]:.6g}", _text(other[0]), f"{other[1]:.6g}"]
            for rank, (one, other) in enumerate(zip(*sides, strict=True), 1)
        ]
        print(format_table(["rank", "authority", "score", "hub", "score"], rows))
        alone = (
            "unique" if scores.unique else "not unique: several components have the largest singular value"
        )
        print(
            f"{scores.status}: residual {scores.residual:.2e}, estimated gap {scores.gap:.2g}, {alone}; "
            f"{scores.n_iter} steps, on {scores.placement.device}, {scores.seconds:.3f} s"
        )
    return _EXITS.get(scores.status, Exit.LIMIT)


def _info(options: argparse.Namespace, found: Graph, group: Group | None) -> int:
    """Print figures of the graph."""
    report = found.report()
    if options.json:
        print_json({**report, "notes": found.notes})
    else:
        width = max(map(len, report))
        for name, value in report.items():
            print(f"{name.replace('_', ' '):{width}}  {value}")
    return Exit.OK


_TASKS: dict[str, Callable[[argparse.Namespace, Graph, Group | None], int]] = {
    "pagerank": _rank,
    "rwr": _walk,
    "hits": _hits,
    "info": _info,
}


def _nodes(what: str, given: str, found: Graph) -> list[Any]:
    """Return the nodes that an option names: the lines of a file, or words with commas between them."""
    if not os.path.isfile(given):
        return [_node(what, word, found) for word in given.split(",")]
    lines = _lines(given)
    return [node for at, line in lines for node in _several(line, found) or [_node(what, line, found, at)]]


def _several(line: str, found: Graph) -> list[Any]:
    """Return the nodes on a line that is the name of none; none if some word is no node, or a number."""
    words = [] if _find(line, found) is not None else line.split()
    if len(words) < 2 or any(_find(word, found) is None or math.isfinite(_real(word)) for word in words):
        return []
    return [_find(word, found) for word in words]


def _seeds(given: str, found: Graph) -> dict[Any, float]:
    """Return the shares of the nodes that --seeds names: 1, or what follows a node on its line in a file."""
    if not os.path.isfile(given):
        return dict.fromkeys(_nodes("--seeds", given, found), 1.0)
    shares: dict[Any, float] = {}
    for at, line in _lines(given):
        share, weighted = 1.0, _WEIGHTED.fullmatch(line)
        if _find(line, found) is None and weighted is not None and math.isfinite(_real(weighted[2])):
            line, share = weighted[1], _real(weighted[2])
        for node in _several(line, found) or [_node("--seeds", line, found, at)]:
            if node in shares:
                raise DataError(f"{at}: found {_text(node)} twice, expected each node once")
            shares[node] = share
    return shares


def _lines(path: str) -> list[tuple[str, str]]:
    """Return the lines of a file that are not blank, with the place of each for messages."""
    with reading(path), open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
        lines = file.read(_MAX_LABELS_BYTES).split("\n")
    numbered = (
        (f"{escape_unprintable(path)}:{number}", line.strip()) for number, line in enumerate(lines, 1)
    )
    return [(at, line) for at, line in numbered if line]


def _find(word: str, found: Graph) -> Any:
    """Return a node by the word that names it, None if there is none."""
    for label in (word, word[1:-1].replace('""', '"')) if word[:1] == word[-1:] == '"' else (word,):
        node = label if isinstance(found.labels.values, list) else _integer(label)
        if node is not None and found.labels.find(node) is not None:
            return node
    return None


def _node(what: str, word: str, found: Graph, at: str | None = None) -> Any:
    """Return a node by the word that names it, or raise if there is none."""
    from bmrm.graph.labels import quote

    node = _find(word, found)
    if node is None:
        number = None if isinstance(found.labels.values, list) else _integer(word)
        text = f"found {quote(word if number is None else number)}, expected a node of the graph"
        raise ParameterError(f"{what}: {text}") if at is None else DataError(f"{at}: {text}")
    return node


def _real(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan


def _integer(word: str) -> int | None:
    try:
        return int(word)
    except ValueError:
        return None


def _plot(options: argparse.Namespace, found: Graph, group: Group | None, scores: Any, name: str) -> None:
    from bmrm.graph.plots import save_degree_rank

    in_degree, labels = found.in_degree, found.labels
    _write(group, lambda: save_degree_rank(options.plot, in_degree, scores, name, labels))


def _facts(result: Any, *names: str) -> dict[str, Any]:
    from bmrm.base.units import finite_or_none

    values = {name: getattr(result, name) for name in names}
    return {
        key: finite_or_none(value) if isinstance(value, float) else value for key, value in values.items()
    }


def _place(placement: Placement) -> dict[str, Any]:
    return {"device": placement.device, "placement": placement.reason}


def _print_table(top: list[tuple[Any, float]], bound: float, proven: int) -> None:
    """Print nodes and scores, with a line under the last rank whose order is proven."""
    from bmrm.base.tables import format_table

    rows = [
        [str(rank), _text(label), f"{score:.9g}", f"+-{bound:.1e}"]
        for rank, (label, score) in enumerate(top, 1)
    ]
    lines = format_table(["rank", "node", "score", "error"], rows).split("\n")
    if proven < len(rows):
        lines.insert(1 + proven, "-" * max(map(len, lines)) + "  order not proven below")
    print("\n".join(lines))


def _text(label: Any) -> str:
    return escape_unprintable(str(label))


if __name__ == "__main__":
    sys.exit(main())

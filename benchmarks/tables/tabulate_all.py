"""Write docs/performance.md and a table of CONTRIBUTING.md from the results files.

python -m benchmarks.tables.tabulate_all
"""

from __future__ import annotations

import statistics
from pathlib import Path

from benchmarks.common import gpu_figures, report
from benchmarks.tables import tabulate_build
from benchmarks.tables.pages import command, heading, load, table, verdicts
from benchmarks.tables.tabulate_dense import full_rows
from benchmarks.tables.tabulate_devices import (
    choice_of_device,
    graphs_on_gpu,
    k_means_on_gpu,
    reductions_on_gpu,
)
from benchmarks.tables.tabulate_ranks import gpus, graph_gpus, graph_ranks, owned, ranks
from benchmarks.tables.tabulate_reductions import scaling
from benchmarks.tables.tabulate_solves import gpu_solves
from benchmarks.tables.tabulate_wide import wide_rows

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
INTRO = """# Performance

Every figure on this page comes from a results file in `benchmarks/results`. The command that wrote the file
stands above its figures, under the name that it has today. Peers were measured in the same run.
`python -m benchmarks.tables.tabulate_all` generates this page.
"""


def loading() -> str:
    """Return the section on loading."""
    results = load("load")
    size = results["text_bytes"] / 1e6
    rows = []
    for name, seconds in results["seconds"].items():
        median = statistics.median(seconds)
        rows.append([name, f"{median:.3f}", f"{size / median:.0f}"])
    figures, memory = results["figures"], results["memory"]
    ratios = (
        f"\nTwo threads against one: {figures['two_threads_over_one']:.2f} times "
        f"(two independent processes: {figures['control_two_processes_over_one']:.2f}). "
        f"`load_svmlight` against scikit-learn's: {figures['over_scikit_learn']:.0f} times faster; the "
        f"reader against LIBLINEAR's in C: {figures['over_liblinear']:.0f} times; the cache against text: "
        f"{figures['cache_over_text']:.0f} times. Peak memory over the result: "
        + ", ".join(f"{kind} {found['peak_over_result']:.2f}" for kind, found in memory.items())
        + ".\n"
    )
    return heading("Loading", results) + table(["loader", "seconds", "MB/s"], rows) + ratios


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


def estimators() -> str:
    """Return the section on k-means, mixtures and principal components."""
    results = load("estimators")
    clusters = [
        [
            f"{r['rows']} x {r['columns']}, k {r['clusters']}, {r['dtype']}", str(r["threads"]),
            f"{r['iteration_ms']:.2f}", f"{r['sklearn_iteration_ms']:.2f}", f"{r['iteration_ratio']:.2f}",
            f"{r['fit_s']:.2f}", f"{r['sklearn_fit_s']:.2f}", f"{r['fit_ratio']:.2f}",
            f"{100 * r['rechecked']:.2f} %",
        ]
        for r in results["kmeans"]
    ]  # fmt: skip
    sides = ["scikit-learn", "times"]
    head = ["k-means", "threads", "iteration, ms", *sides, "fit, s", *sides, "float64"]
    mixtures = [
        [
            r["covariance"],
            str(r["threads"]),
            f"{r['step_ms']:.1f}",
            f"{r['sklearn_step_ms']:.1f}",
            f"{r['ratio']:.1f}",
        ]
        for r in results["mixture"]
    ]
    first = results["mixture"][0]
    of = f"EM, {first['rows']} x {first['columns']}, k {first['components']}"
    components = [
        [
            f"{r['rows']} x {r['columns']}, {r['stored']} stored", str(r["threads"]), f"{r['seconds']:.2f}",
            f"{r['sklearn_seconds']:.2f}", f"{r['ratio']:.2f}", f"{r['largest_width']:.1e}",
        ]
        for r in results["sparse_pca"]
    ]  # fmt: skip
    return (
        heading("k-means, mixtures, principal components", results)
        + table(head, clusters)
        + '\n"float64" is the share of labels that the float32 pass could not prove. Times on one thread are '
        + "processor time. A fit is the mean of three random starts; iterations, ours and scikit-learn's: "
        + "; ".join(
            f"{r['rows']} x {r['columns']} {r['dtype']} {_listed(r['iterations'])} and "
            f"{_listed(r['sklearn_iterations'])}"
            for r in results["kmeans"]
        )
        + ".\n"
        + table([of, "threads", "step, ms", *sides], mixtures)
        + table(
            ["PCA, 20 components", "threads", "seconds", "ARPACK", "times", "widest interval"], components
        )
    )


def loading_edges() -> str:
    """Return the section on loading edge text."""
    results = load("edges")
    rows = [
        [text, loader, f"{seconds:.3f}", f"{results['text_bytes'][text] / 1e6 / seconds:.0f}"]
        for text, times in results["cpu_seconds"].items()
        for loader, seconds in times.items()
    ]
    note = (
        f"\n{results['edges']} edges; CPU seconds of one thread. Two threads against one, in wall time: "
        f"{results['figures']['two_threads_over_one']:.2f} times. Only the reader and the loaders that say "
        "numbered give numbered nodes; the others give columns.\n"
    )
    return heading("Loading edges", results) + table(["ids", "loader", "seconds", "MB/s"], rows) + note


def graphs() -> str:
    """Return the section on graphs."""
    results = load("graph")

    def times(ratio: float | None) -> str:
        return "-" if ratio is None else f"{ratio:.2f}"

    ranks, others = [], []
    for name, row in results["graphs"].items():
        found, walks, nx = row["pagerank"], row["queries"], row["networkx"] or {}
        count, over = found["products"], found["over"]
        ranks.append(
            [
                f"{name}, {row['nodes']} / {row['edges']}",
                f"{1e3 * found['seconds']['bmrm']:.1f}",
                *(times(over.get(peer)) for peer in ("igraph", "scipy", "graphblas")),
                times(found.get("over_at_1e-12")),
                times(nx.get("over_first")),
                times(nx.get("over_cached")),
                f"{count['default']} / {count['power']}",
                f"{count['top 10']}",
            ]
        )
        others.append(
            [
                name,
                f"{1e3 * row['hits']['seconds']['bmrm']:.1f}",
                times(row["hits"].get("over_igraph")),
                f"{1e3 * walks['seconds']['one']:.1f}",
                times(walks["query_over_one"]),
                times(walks["query_over_scipy"]),
            ]
        )
    columns = ["graph, nodes / edges", "PageRank to 1e-8, ms", "over igraph", "over SciPy"]
    columns += ["over GraphBLAS", "over igraph at 1e-12", "over NetworkX, first", "cached"]
    columns += ["products / power's", "to top 10"]
    more = [
        "graph",
        "HITS, ms",
        "over igraph",
        "one query, ms",
        "each of 16 / one",
        "each of 16 / SciPy's one",
    ]
    build = results["graphs"]["rmat"]["build"]["seconds"]
    note = (
        "\nProcessor time of one thread, the least of the rounds. "
        "PageRank's error is proven to be 1e-8 at most; "
        "igraph iterates to 1e-10, the others to the same residual. "
        f"The R-MAT graph is built from its edges in {build:.2f} s.\n"
    )
    return heading("Graphs", results) + table(columns, ranks) + table(more, others) + note


def products() -> str:
    """Return the section on products on the CPU."""
    results = load("spmv_cpu")
    roofs = "; ".join(
        f"{n} thread{'s' if n != '1' else ''}: read {roof['read']:.1f} GB/s, triad {roof['triad']:.1f} GB/s"
        for n, roof in results["roof_gbs"].items()
    )
    columns = ["shape, values, product", "how", "threads", "us", "GB/s"]
    columns += ["of read roof", "of gather alone", "times peer"]
    rows = [
        [
            f"{row['shape']}, {row['values']}, {row['product']}",
            row["how"] + (", chosen" if row["chosen"] else ""),
            str(row["threads"]),
            f"{row['us']:.0f}",
            f"{row['gbs']:.1f}",
            f"{row['of_roof']:.0%}",
            f"{row['of_gather']:.0%}" if row["of_gather"] else "",
            f"{row['times_peer']:.2f}",
        ]
        for row in results["rows"]
        if row["product"] in ("X w", "X^T r")
    ]
    alone = [
        [row["shape"], row["product"], str(row["threads"]), f"{row['us']:.0f}", f"{row['ns_per_nnz']:.3f}"]
        for row in results["gather"]
    ]
    measured = (
        f"\nMemory bandwidth measured in the same run: {roofs}. GB/s count the bytes of the stored format.\n"
    )
    gather = (
        "\nA sparse product also has to gather: it loads w at every index. Gathering alone, the sum of w\n"
        "over the indices of the matrix, without values, rows or results, took\n"
        + table(["shape", "for", "threads", "us", "ns per nonzero"], alone)
        + "\nThe products themselves, compared with both roofs and a peer. The peer of a sparse product "
        "is SciPy,\n"
        "on one thread, which sums in the type of the values; the peer of a dense one is OpenBLAS on the "
        "same\n"
        'number of threads. Runs alternate with the peer\'s. "Chosen" marks the default of the library.\n'
    )
    return heading("Products on the CPU", results) + measured + gather + table(columns, rows)


def cpu_choice() -> str:
    """Return the section on the products of many matrices on the CPU."""
    results = load("choice_cpu")

    def transposed(product: str) -> str:
        return product.replace("^T", "'")

    summary = [
        [
            f"{transposed(found['product'])}, {found['values']}",
            str(found["matrices"]),
            f"{found['least']:.2f}",
            f"{found['median']:.2f}",
            str(found["missed"]),
        ]
        for found in results["summary"]
    ]
    missed = [
        [
            f"{row['matrix']}, {row['values']}, {transposed(row['product'])}",
            f"{row['us']:.0f}",
            f"{row['scipy_us']:.0f}",
            f"{row['over']:.2f}",
        ]
        for row in results["rows"]
        if row["over"] < results["aim"]
    ]
    below = ""
    if missed:
        below = "\nThose below the aim:\n" + table(
            ["matrix, values, product", "us", "SciPy, us", "over"], missed
        )
    return (
        heading("Many matrices on the CPU", results)
        + f"\n{results['matrices']} matrices from 2000 x 60 to 30000 x 50000, 4 to 64 nonzeros per row, and "
        "published graphs; calls from Python with arrays that exist, on one thread. SciPy "
        f"{results['scipy']} multiplies with vectors in the type of the values, and so adds up in float32 if "
        "they are. `over` is SciPy's time over ours, each the least of many in turns; at least "
        f"{results['aim']} is the aim.\n"
        + table(["product, values", "matrices", "least over", "median over", "below the aim"], summary)
        + below
    )


def gpu_heading(title: str, results: dict) -> str:
    """Return the title of a section of measurements on a GPU, and the device."""
    device = results["device"]
    libraries = {"cusparse": "cuSPARSE", "cublas": "cuBLAS"}
    peers = "".join(f", {name} {device[key]}" for key, name in libraries.items() if key in device)
    return heading(title, results) + (
        f"\n{device['name']}, compute capability {device['compute_capability']}, driver for CUDA "
        f"{device['driver']}{peers}; a copy on the device moves "
        f"{results['copy_gbs']:.0f} GB/s, counting both reads and writes.\n"
    )


def at_most(row: dict) -> float:
    """Return the speed-up over the peer if a product moved its bytes at the speed of a copy."""
    return row["times_faster"] / row["of_copy"]


def gpu_sparse_rows(results: dict) -> list[list[str]]:
    """Return the table rows of the sparse products."""
    return [
        [
            f"{row['shape']}, {row['values']}, {row['product']}",
            f"{row['peer_us']:.0f}",
            f"{row['peer_of_copy']:.0%}",
            f"{row['us']:.0f}",
            f"{row['of_copy']:.0%}",
            f"{row['times_faster']:.2f}",
            f"{at_most(row):.2f}",
            f"{row['error']:.0e}",
            row["plan"],
        ]
        for row in results["sparse"]
    ]


def gpu_products() -> str:
    """Return the section on products on a GPU."""
    results = load("spmv_gpu")
    against = ["bmrm us", "share", "times faster", "error"]
    dense = [
        [
            f"{row['rows']} x {row['cols']}, {row['values']}, {row['product']}",
            f"{row['peer_us']:.1f}",
            f"{row['us']:.1f}",
            f"{row['of_copy']:.0%}",
            f"{row['times_faster']:.2f}",
            f"{row['error']:.0e}",
        ]
        for row in results["dense"]
    ]
    coded = [
        [
            f"{row['shape']}, {row['values']}, {row['product']}",
            f"{row['us']:.0f}",
            f"{row['bytes_per_nonzero']:.2f}",
            f"{row['of_copy']:.0%}",
        ]
        for row in results["coded"]
    ]
    return (
        gpu_heading("Products on a GPU", results)
        + verdicts(gpu_figures.figures(results))
        + "\nSparse products; cuSPARSE is the better of its two algorithms, preprocessed, with a stored "
        "transpose for X^T r. Shares are of the bandwidth of a copy. `at most` is the speed-up if a product "
        "moved the bytes of its format and its vectors as fast as a copy and started at once: "
        + " and ".join(
            f"{statistics.geometric_mean(at_most(r) for r in results['sparse'] if r['values'] == dtype):.2f} "
            f"in the geometric mean for {dtype}"
            for dtype in ("float32", "float64")
        )
        + ".\n"
        + table(
            ["shape, values, product", "cuSPARSE us", "share", *against[:3], "at most", "error", "plan"],
            gpu_sparse_rows(results),
        )
        + "\nDense products; cuBLAS is the better of a row-major and a column-major matrix.\n"
        + table(["shape, values, product", "cuBLAS us", *against], dense)
        + "\nThe gain of ones and of few distinct values, float32.\n"
        + table(["shape, values, product", "us", "bytes per nonzero", "share"], coded)
    )


def gpu_bounds() -> str:
    """Return the section on the limits of sparse products on a GPU."""
    results = load("bounds_gpu")
    rows = [
        [
            f"{row['shape']}, {row['product']}",
            *(f"{row[key]:.1f}" for key in ("peer_us", "us", "read_us")),
            f"{row['gathers_us']:.1f}" if "gathers_us" in row else "",
            *(f"{row[key]:.2f}" for key in ("times_faster", "at_most")),
        ]
        for row in results["rows"]
    ]
    return (
        gpu_heading("Limits of the products on a GPU", results)
        + "\nEach product, float32, and its two necessary parts, each alone and at the fastest of several "
        "launch shapes: reading the bytes of its format and writing the outputs; and multiplying every "
        "nonzero by its input, from shared memory tile by tile or from global memory, without rows. "
        "`At most` is the speed-up over cuSPARSE if a product took as long as the slower part, or its "
        "present "
        f"time if that is less: {results['at_most']:.2f} in the geometric mean; "
        f"the products reach {results['times_faster']:.2f}. A launch that follows another takes "
        f"{results['launch_us']:.2f} us.\n"
        + table(
            ["shape, product", "cuSPARSE us", "bmrm us", "read us", "gathers us", "times faster", "at most"],
            rows,
        )
    )


def gpu_choice() -> str:
    """Return the section on the choice of a kernel on a GPU."""
    results = load("choice_gpu")
    found, limits = results["figures"], results["limits"]
    aims = [
        ["mean loss of the pick", "tuned mean", ".1%"],
        ["worst loss of the pick", "tuned worst", ".1%"],
        ["mean loss of the prediction alone", "predicted mean", ".1%"],
        ["products run to choose, at most", "tuning products", ".0f"],
        ["largest time over that of cuSPARSE", "over the peer, worst", ".3f"],
    ]
    figures = [
        [title, format(found[name], style), format(limits[name], style.replace(".1", ".0")),
         "yes" if found[name] <= limits[name] else "no"]
        for title, name, style in aims if name in found
    ]  # fmt: skip
    groups = [
        [g["group"], str(g["products"]), *(f"{g[f'{pick} {what}']:.1%}" for pick in ("tuned", "predicted")
                                           for what in ("mean", "worst"))]
        for g in results["groups"]
    ]  # fmt: skip
    kernels = [
        [k["kernel"], str(k["best"]), *(f"{ratio:.2f}" for ratio in k["predicted_over_measured"])]
        for k in results["kernels"]
    ]
    return (
        heading("The choice of a kernel on a GPU", results)
        + f"\n{results['gpu']['name']}. {found['matrices']} matrices, {found['products']} products. The loss "
        "of a pick is its time over that of the best of all candidates, minus one.\n"
        + table(["figure", "measured", "aim", "reached"], figures)
        + f"\nTiming took as long as {found['timing median']:.0f} products of the best candidate (median; at "
        f"most {found['timing most']:.0f}). Choosing for both products, including building the formats "
        f"for trial, took {1e3 * found['tuning seconds median']:.1f} ms (median; at most "
        f"{1e3 * found['tuning seconds most']:.1f} ms), {found['tuning seconds in products']:.0f} of both "
        "products (median).\n"
        + table(["matrices", "products", "tuned mean", "worst", "predicted mean", "worst"], groups)
        + "\nHow often each kernel is the best, and the ratio of predicted to measured time of its "
        "candidates.\n" + table(["kernel", "best", "10 %", "median", "90 %"], kernels)
    )


def one_hot_choice() -> str:
    """Return the section on products with a large one-hot matrix on a GPU."""
    results = load("choice_gpu")
    measured = [row for row in results["rows"] if row["matrix"].startswith("one-hot")]
    rows = []
    for row in measured:
        candidates = [words.split() for words in row["candidates"]]
        pick = min((candidates[int(i)] for i in row["tried"].split()), key=lambda words: float(words[-2]))
        ours = float(pick[-1])
        product = "X w" if row["op"] == "normal" else "X' r"
        rows.append(
            [
                f"{product}, {row['values']}", pick[0], f"{1e6 * ours:.0f}", f"{1e6 * row['peer']:.0f}",
                f"{row['peer'] / ours:.2f}",
            ]
        )  # fmt: skip
    return (
        heading("A one-hot matrix on a GPU", results)
        + f"\n{results['gpu']['name']}. {measured[0]['matrix']}, columns by Zipf's law; `ones64` are "
        "values that are not stored, with vectors in float64. cuSPARSE's better algorithm on stored values.\n"
        + table(["product, values", "kernel", "us", "cuSPARSE, us", "times faster"], rows)
    )


def convergence() -> str:
    """Return the section on passes and seconds to a certified gap."""
    results = load("convergence")
    rows = [
        [
            row["what"],
            f"{row['gap']:.0e}",
            str(row["passes"]),
            f"{row['objective']:.7f}",
            f"{row['lower_bound']:.7f}",
            f"{1e3 * row['seconds']:.1f}",
            f"{row['qp_share']:.0%}",
        ]
        for row in results["rows"]
    ]
    path = results["path"]
    along = (
        f"\nA path over lam = {', '.join(f'{lam:g}' for lam in path['lams'])} with its cuts reused takes "
        f"{sum(path['path'])} passes to the absolute gap 1e-4 ({', '.join(map(str, path['path']))}); solved "
        f"separately they take {', '.join(map(str, path['alone']))}.\n"
    )
    bounds = (
        "\nThe aim for the inner QP was under 30 %. With several cuts per pass most of it is changes of "
        "the active "
        "set, one for each cut that enters or leaves, each with a triangular solve. The active set grows "
        "as the "
        "gap shrinks, while nothing else in a pass grows except the Gram entries: hence the larger share "
        "at the "
        "smaller gap.\n"
    )
    columns = ["variant", "absolute gap", "passes", "objective", "lower bound", "ms", "inner QP"]
    return heading("Convergence on a9a, lam 1e-5", results) + table(columns, rows) + bounds + along


def cross_validation() -> str:
    """Return the section on a grid of cross validations."""
    results = load("crossval")
    rows = [
        [
            f"{row['set']} {row['rows']} x {row['columns']}, {row['loss']}",
            f"{1e3 * row['seconds']['solve']:.1f}",
            f"{1e3 * row['seconds']['resident_solve']:.1f}",
            str(row["unit_passes"]),
            f"{1e3 * row['seconds']['grid']:.1f}",
            f"{1e3 * row['seconds']['resident_grid']:.1f}",
            str(row["passes"]),
            f"{row['times_solve']:.1f}",
            f"{row['times_resident']:.1f}",
            f"{row['times_unit']:.1f}",
            f"{1e3 * row['one_by_one']['seconds']:.1f}",
            str(row["one_by_one"]["passes"]),
        ]
        for row in results["rows"]
    ]
    lams = results["lams"]
    count = results["folds"] * len(lams)
    columns = ["set, loss", "one solve ms", "resident", "passes", "grid ms", "resident", "passes"]
    columns += ["grid / one solve", "resident", "strictly"]
    return (
        heading("Cross validation", results)
        + f"\n{results['folds']} folds for {len(lams)} lam from {max(lams):.2g} to {min(lams):.2g}: {count} "
        f"certified solves to a relative gap of {results['tol']:g}. `one solve` is the whole call of "
        "`bmrm.solve` for the smallest lam on all rows, from scratch, and `grid` that of `bmrm.select` "
        "without the final model, both from a SciPy matrix in memory. The columns `resident` have the "
        "same calls "
        "with one `bmrm.Dataset`. `strictly` is the ratio of the grid from a SciPy matrix to the "
        "solver's own "
        "time for the resident solve. `one by one` are the same solves from scratch. Medians of runs that "
        "alternate. The aim is a grid in under 6 solves. A pass that ends at once, on known cuts, counts "
        "too.\n"
        + table([*columns, "one by one ms", "passes"], rows)
        + "\nWhole commands, from a file: `bmrm-train -v` with the grid, and `bmrm-train` with the "
        "smallest lam.\n"
        + table(
            ["set, loss", "one solve s", "grid s", "grid / one solve"],
            [
                [
                    f"{row['set']}, {row['loss']}",
                    f"{row['seconds']['solve']:.3f}",
                    f"{row['seconds']['grid']:.3f}",
                    f"{row['times_solve']:.1f}",
                ]
                for row in results["commands"]
            ],
        )
        + "\nIf X is narrow, the folds share their cuts and Hessians. One solve with the logistic loss "
        "takes five "
        "Newton steps there. A grid in 6 solves would have 30 steps for its 50 folds and lam, but most "
        "of these "
        "need one even from another fold's answer. With the hinge two or three Newton steps with "
        "smoothed kinks "
        "finish a fold's solve at the larger lam. At the three smallest lam kinks stop these steps, and cuts "
        "alone take eight or nine more passes. They are needed for a fold's bound, not for its objective, "
        "mostly whatever other folds have found. "
        "On text the folds' solutions are far apart: each fold goes its own way, and about half of its "
        "passes are those of the two smallest lam, for which answers to larger lam help little. Cuts "
        "shared by the folds save hardly any of these passes, nor do more cuts per pass. So the folds "
        "are solved "
        "in step: products with one column per fold take most of the time, and the other work of a fold in a "
        "pass is that of a separate solve.\n"
    )


def against_liblinear() -> str:
    """Return the section on training against LIBLINEAR."""
    results = load("against_liblinear")
    whole = [
        [
            row["loss"],
            f"{row['bmrm_seconds']:.2f}",
            f"{row['liblinear_seconds']:.2f}",
            f"{row['times_faster']:.1f}",
            f"{row['bmrm_objective']:.7f}",
            f"{row['liblinear_objective']:.7f}",
        ]
        for row in results["whole"]
    ]
    alone = [
        [
            f"{row['loss']}, -e {row['epsilon']:g}",
            f"{row['suboptimality']:.1e}",
            f"{1e3 * row['bmrm_seconds']:.1f}",
            f"{1e3 * row['liblinear_seconds']:.1f}",
            f"{row['times_faster']:.1f}",
        ]
        for row in results["alone"]
    ]
    return (
        heading("Against LIBLINEAR", results)
        + "\nThe whole command on a text set of 200 000 x 47 236 with 76 nonzeros per row (start, load, "
        "train, write): `bmrm-train` to a certified relative gap of 1e-3, Debian's `liblinear-train "
        "-e 0.001`. One function of NumPy and SciPy evaluates both objectives.\n"
        + table(["loss", "bmrm s", "LIBLINEAR s", "times faster", "J bmrm", "J LIBLINEAR"], whole)
        + "\nTraining alone on a9a, at equal true suboptimality: LIBLINEAR 2.50 at each of its tolerances, "
        "and bmrm until its objective is as low.\n"
        + table(["loss", "suboptimality", "bmrm ms", "LIBLINEAR ms", "times faster"], alone)
    )


def joint_losses() -> str:
    """Return the section on losses of many margins and on quantile regression."""
    results = load("ranking")
    found, quantile = results["evaluation"], results["quantile"]
    rows = [
        [
            f"`{row['loss']}`, {row['what']}",
            f"{1e3 * row['seconds']:.0f}",
            f"{1e3 * row['products']:.0f}",
            f"{row['ratio']:.2f}",
            str(row["passes"]),
            f"{row['training']:.1f}",
            f"{row['search_share']:.0%}",
            f"{(row['objective'] - row['lower_bound']) / row['objective']:.1%}",
        ]
        for row in found["losses"]
    ]
    columns = ["loss", "evaluation ms", "two products ms", "ratio", "passes", "training s", "searches", "gap"]
    there = load("ranking_gpu")
    on_gpu = [
        [
            f"`{row['loss']}`, {row['what']}",
            f"{1e3 * row['seconds']:.2f}",
            f"{1e3 * row['products']:.2f}",
            f"{row['ratio']:.2f}",
            f"{row['apart']:.0e}",
            str(row["passes"]),
            f"{row['training']:.2f}",
        ]
        for row in there["evaluation"]["losses"]
    ]
    gpu_columns = [
        "loss",
        "evaluation ms",
        "two products ms",
        "ratio",
        "from the CPU",
        "passes",
        "training s",
    ]
    sizes = [
        [
            f"{row['rows']}",
            f"{row['seconds']:.2f}",
            f"{row['sklearn_seconds']:.1f}",
            f"{row['times_faster']:.1f}",
            f"{row['loss']:.6f}",
            f"{row['sklearn_loss']:.6f}",
        ]
        for row in quantile["sizes"]
    ]
    large = quantile["large"]
    return (
        heading("Losses of many margins", results)
        + f"\nA text-like X of {found['rows']} x {found['cols']} with {found['nnz'] / found['rows']:.0f} "
        "nonzeros per row. One evaluation is the risk and its derivatives from the margins; the two products "
        "are X w and X^T r of the same pass. Training is to a certified relative gap of 1 %, for 20 s at "
        'most; "searches" is the share of line searches in it, which evaluate several times per pass.\n'
        + table(columns, rows)
        + f"\nThe same on a GPU, {there['gpu']}, by `{command(there)}`: evaluation and products each "
        'between two CUDA events; "from the CPU" is the relative difference of the risk from the CPU\'s '
        "at the same "
        "margins. A million grades take twenty passes over the rows, one for each bit of a grade.\n"
        + table(gpu_columns, on_gpu)
        + f"\nQuantile regression (tau {quantile['tau']:g}, {quantile['features']} dense features) against "
        f"scikit-learn {results['sklearn']}'s QuantileRegressor, a linear program solved by HiGHS, at sizes "
        "that double until it takes more than a minute. The loss is the mean quantile loss of each answer: "
        "the linear program is exact, ours certified to 1e-3 with a small penalty.\n"
        + table(["rows", "bmrm s", "scikit-learn s", "times faster", "loss bmrm", "loss sklearn"], sizes)
        + f"\n{large['rows']} rows, bmrm alone: {large['seconds']:.1f} s, {large['passes']} passes, "
        f"{large['status']}.\n"
    )


def multiclass() -> str:
    """Return the section on several classes against LIBLINEAR."""
    results = load("multiclass")
    against = [
        [
            f"{row['set']}, -e {row['epsilon']:g}",
            f"{row['liblinear_objective']:.7f}",
            f"{row['bmrm_objective']:.7f}",
            f"{row['bmrm_seconds']:.2f}",
            f"{row['liblinear_seconds']:.2f}",
            f"{row['times_faster']:.1f}",
        ]
        for row in results["against"]
    ]
    certified = "; ".join(
        f"`{row['loss']}` {row['seconds']:.2f} s, {row['passes']} passes" for row in results["certified"]
    )
    wide = [
        [
            f"{row['set']}, {row['classes']} classes",
            f"{row['bmrm_objective']:.7f}",
            f"{row['liblinear_objective']:.7f}",
            f"{row['epsilon']:g}",
            f"{row['bmrm_seconds']:.2f}",
            f"{row['liblinear_seconds']:.2f}",
            f"{row['ratio']:.2f}",
        ]
        for row in results["wide"]
    ]
    return (
        heading("Several classes", results)
        + "\nTraining alone on 20 000 rows of 20 classes: LIBLINEAR 2.50's `-s 4` (Crammer and Singer) at "
        "some of its tolerances, and `multiclass` until its objective is as low. One function of NumPy and "
        "SciPy evaluates both objectives; each has one thread. `letter` is dense with 16 features. `text` "
        "is sparse, with the same number of features as rows and separable classes; there both climb the "
        "dual "
        "row by row.\n"
        + table(["set", "J LIBLINEAR", "J bmrm", "bmrm s", "LIBLINEAR s", "times faster"], against)
        + f"\nTo a certified relative gap of 1e-3 on `letter`: {certified}.\n"
        "\nTo a certified relative gap of 1e-3 on 2000 rows and 62 000 words, with all defaults at lam "
        f"{results['wide_lam']:g}, and LIBLINEAR at the loosest of its tolerances that reaches the same "
        "objective. `topics` has rows of length 1 and planted classes; `counts` has numbers of words as they "
        "are, and a third of its classes are noise. Seconds are of the processor.\n"
        + table(["set", "J bmrm", "J LIBLINEAR", "-e", "bmrm s", "LIBLINEAR s", "ratio"], wide)
    )


def l1() -> str:
    """Return the section on the l1 penalty against LIBLINEAR."""
    results = load("l1")
    rows = [
        [
            f"{row['loss']}, lam {row['lam']:g}",
            f"{1e3 * row['bmrm_seconds']:.0f}",
            f"{1e3 * row['liblinear_seconds']:.0f}",
            f"{row['liblinear_seconds'] / row['bmrm_seconds']:.1f}",
            f"{row['bmrm_objective']:.7f}",
            f"{row['liblinear_objective']:.7f}",
            f"{row['epsilon']:g}",
            f"{row['bmrm_nonzero']}, {row['liblinear_nonzero']}",
        ]
        for row in results["rows"]
    ]
    missed = [
        f"{row['loss']} at lam {row['lam']:g}"
        for row in results["rows"]
        if row["liblinear_objective"] - row["optimum"] > results["accuracy"] * row["optimum"]
    ]
    short = f" LIBLINEAR reaches its limit of passes first for {' and '.join(missed)}." if missed else ""
    columns = ["loss", "bmrm ms", "LIBLINEAR ms", "times faster", "J bmrm", "J LIBLINEAR", "-e", "nonzero"]
    return (
        heading(f"The l1 penalty on {results['data']}, against LIBLINEAR -s 6 and -s 5", results)
        + "\nTraining alone: bmrm, including making X resident, until it has certified the relative gap "
        f"{results['accuracy']:g}; LIBLINEAR 2.50 at the loosest of its tolerances whose objective is as "
        "close to the optimum."
        + short
        + " One function of NumPy and SciPy evaluates both objectives. The last column has the nonzero "
        "weights of "
        "bmrm and of LIBLINEAR.\n" + table(columns, rows)
    )


def commands() -> str:
    """Return the section on the whole commands."""
    results = load("startup")
    rows = [[row["what"], f"{row['seconds']:.3f}"] for row in results["rows"]]
    return heading("Start-up", results) + table(["command", "seconds"], rows)


def two_builds() -> str:
    """Return the section on whole solves by an earlier build and by this one."""
    results = load("two_builds")
    rows = [
        [
            row["problem"],
            f"{1e3 * row['seconds_old']:.2f}",
            f"{1e3 * row['seconds_new']:.2f}",
            f"{row['ratio']:.3f}",
            f"{row['passes_old']}, {row['passes_new']}",
        ]
        for row in results["rows"]
    ]
    old = f"commit {results['old_commit']}" if results["old_commit"] else "an earlier build"
    return (
        heading("Whole solves by two builds", results)
        + f"\nThe same solves by {old} and by this build, in turns, from arrays to the result; the least "
        f"time of each. The command fails if a ratio is above {results['limit']:g}.\n"
        + table(["problem", "old ms", "new ms", "ratio", "passes"], rows)
    )


def busy() -> str:
    """Return the section on fits beside other work."""
    results = load("busy")
    names = ["new", *(["old"] if results["old"] else [])]
    rows = []
    for row in results["rows"]:
        cells = [row["case"], row["load"]]
        for name in names:
            times = [
                row[f"{kind}_{name}_{threads}"]
                for kind in ("seconds", "processor")
                for threads in (1, "default")
            ]
            cells += [f"{1e3 * times[0]:.0f}", f"{times[1] / times[0]:.2f}", f"{times[3] / times[2]:.2f}"]
        rows.append(cells)
    columns = [
        f"{what}{' by ' + results['old'] if name == 'old' else ''}"
        for name in names
        for what in ("one thread ms", "times by the clock", "of processors")
    ]
    return (
        heading("Beside other work", results)
        + "\nFits from arrays on one thread, and how many times as long they take with the default threads: "
        "by the clock, and the time of processors. Loads: nothing else (the least time of each); one process "
        "per core that counts; one process that multiplies matrices with a thread of BLAS per core (medians "
        f"of {results['rounds']}). The command fails if a ratio beside a load is above 1.2.\n"
        + table(["fit", "load", *columns], rows)
    )


def bridge() -> str:
    """Return the section on the bridge to PETSc's vectors."""
    results = load("petsc_bridge")
    ways = {
        "cpu": "CPU, shared array / copy in memory",
        "host": "GPU, vectors on the host / pinned copy",
        "device": "GPU, vectors on the GPU / device copy",
    }
    rows = [
        [
            ways[row["way"]],
            str(row["size"]),
            f"{1e6 * row['bridge']:.2f}",
            f"{1e6 * row['copy']:.1f}",
            f"{row['ratio']:.3f}",
        ]
        for row in results["rows"]
    ]
    gpu = "" if results["gpu"] is None else f"\nThe GPU: {results['gpu']}.\n"
    return (
        heading("The bridge to PETSc", results)
        + gpu
        + table(["way / against", "doubles", "bridge us", "copy us", "ratio"], rows)
    )


def petsc_mat() -> str:
    """Return the section on PETSc's matrix on a GPU."""
    results = load("petsc_mat_gpu")
    rows = [
        [
            row["shape"],
            row["product"],
            row["values"],
            f"{row['petsc_us']:.1f}",
            f"{row['bmrm_us']:.1f}",
            f"{row['times_faster']:.2f}",
        ]
        for row in results["rows"]
    ]
    return (
        heading("PETSc's matrix on a GPU", results)
        + verdicts(results["figures"])
        + f"\nThe GPU: {results['gpu']}; PETSc {results['petsc']}. Its `aijcusparse` holds doubles, ours "
        "the values that the table names; both sides use PETSc's vectors of doubles.\n"
        + table(["shape", "product", "values", "PETSc us", "bmrm us", "times faster"], rows)
    )


def tao() -> str:
    """Return the section on PETSc TAO."""
    results = load("petsc_tao")
    rows = []
    for case in results["cases"]:
        own = case["runs"]["bmrm"]
        for name, run in case["runs"].items():
            early = run["seconds_to_objective"]
            rows.append(
                [
                    f"{case['data']}, {case['loss']}, {name}",
                    f"{run['seconds']:.3f}" if run["converged"] else f"over {run['seconds']:.0f}",
                    "never" if early is None else f"{early:.3f}",
                    str(run["evaluations"]),
                    f"{run['objective']:.9f}",
                    "" if run is own else f"{run['seconds'] / own['seconds']:.1f}",
                    "" if run is own or early is None else f"{early / own['seconds_to_objective']:.1f}",
                ]
            )
    sizes = sorted({"{data}: {rows} x {columns}, {nnz} nonzeros".format(**case) for case in results["cases"]})
    columns = ["data, loss, solver", "s to gap", "s to objective", "evaluations", "objective"]
    return (
        heading("Against PETSc TAO", results)
        + f"\nlam {results['lam']:g}, one core, PETSc {results['petsc']}, to a relative gap of "
        f"{results['tol']:g}: to each solver's own bound, and to the best known bound, which requires no "
        f"certificate. {'; '.join(sizes)}.\n" + table([*columns, "bmrm faster", "to objective"], rows)
    )


def error_bounds() -> str:
    """Return the section on the cost of error bounds."""
    text = ""
    for name, clock in (("error_bounds", "processor time"), ("error_bounds_gpu", "time between events")):
        results = load(name)
        rows = [
            [
                f"{row['set']}, {row['loss']}{', ' + row['reg'] if 'reg' in row else ''}"
                + (", free intercept" if row.get("fit_intercept") else ""),
                f"{1e3 * row['seconds_without']:.2f}",
                f"{1e3 * row['seconds_with']:.2f}",
                f"{row['ratio']:.3f}",
            ]
            for row in results["solves"]
        ]
        where = "on one thread" if name == "error_bounds" else f"on one {results['device']['name']}"
        text += heading(f"What error bounds cost, {where}", results)
        text += f"\nA solve with bounds of rounding and without, in turns; the least {clock}, "
        text += f"aim {results['aim']:g}.\n"
        text += table(["set, loss", "without ms", "with ms", "ratio"], rows)
    return text


def page() -> str:
    """Return the text of the page."""
    choice = gpu_choice() if (report.RESULTS / "choice_gpu.json").exists() else ""
    return (
        INTRO
        + loading()
        + loading_edges()
        + estimators()
        + graphs()
        + scaling()
        + graphs_on_gpu()
        + reductions_on_gpu()
        + k_means_on_gpu()
        + choice_of_device()
        + products()
        + cpu_choice()
        + gpu_products()
        + gpu_bounds()
        + choice
        + one_hot_choice()
        + gpu_solves()
        + convergence()
        + error_bounds()
        + full_rows()
        + cross_validation()
        + against_liblinear()
        + wide_rows()
        + joint_losses()
        + ranks()
        + owned()
        + graph_ranks()
        + graph_gpus()
        + gpus()
        + tao()
        + bridge()
        + petsc_mat()
        + multiclass()
        + l1()
        + commands()
        + two_builds()
        + busy()
    )


if __name__ == "__main__":
    for path, text in ((PAGE, page), (tabulate_build.PAGE, tabulate_build.page)):
        path.write_text(text())
        print(f"written to {path}")

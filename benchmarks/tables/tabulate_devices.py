"""The sections of docs/performance.md on graphs and reductions on a GPU."""

from __future__ import annotations

from typing import Any

from benchmarks.tables.pages import heading, load, table


def ms(seconds: float) -> str:
    """Format seconds as milliseconds."""
    return f"{1e3 * seconds:.3g}"


def of(row: dict[str, Any], key: str, style: str = ".2f", unit: float = 1.0) -> str:
    """Format an entry that a row may lack."""
    return format(unit * row[key], style) if key in row else "-"


def graphs_on_gpu() -> str:
    """Return the section on graphs on a GPU."""
    results, parts = load("graph_gpu"), load("graph_gpu")
    products, walks = [], []
    for row in results["rows"]:
        name = f"{row['graph']}, {row['nodes']} / {row['edges']}"
        products += [
            [
                f"{name}, {kind}",
                of(row, f"product_{kind}_us", ".0f"),
                of(row, f"cusparse_{kind}_us", ".0f"),
                of(row, f"cusparse_{kind}_our_order_us", ".0f"),
                of(row, f"product_{kind}_times_faster"),
                of(row, f"{step}_us", ".0f"),
                of(row, f"loop_{kind}_us", ".0f"),
            ]
            for kind, step in (("float32", "light"), ("float64", "exact"))
        ]
        walks.append(
            [
                row["graph"],
                of(row, "pagerank_ms", ".1f"),
                str(row["n_iter"]),
                of(row, "loop_ms", ".1f"),
                str(row["loop_iterations"]),
                of(row, "pagerank_times_faster"),
            ]
        )
    others = [
        [
            row["graph"],
            of(row, "walks_8_us_each", ".0f"),
            of(row, "walks_8_times_faster"),
            of(row, "walks_32_us_each", ".0f"),
            of(row, "walks_32_times_faster"),
            of(row, "top_us", ".0f"),
            of(row, "hits_ms", ".0f"),
            str(row["hits_steps"]),
        ]
        for row in parts["rows"]
    ]
    figures = [
        [title, f"{found:.2f}", f"{results['targets'][title]:g}"]
        for title, found in results["figures"].items()
    ]
    return (
        heading("Graphs on a GPU", results)
        + f"\n{results['gpu']['name']}. Generated graphs, implicit ones. The peer is a loop of cuSPARSE and "
        "cuBLAS over CuPy arrays, the better algorithm of cuSPARSE, with the nodes as the data number them; "
        "in brackets, cuSPARSE with the nodes as `Graph` orders them. An iteration is the product with all "
        "vector work: ours in float32 is a light step, in float64 an exact one.\n"
        + table(
            [
                "graph, nodes / edges",
                "product, us",
                "cuSPARSE, us",
                "(our order, us)",
                "times faster",
                "iteration, us",
                "loop, us",
            ],
            products,
        )
        + "\nTime to a proven error of 1e-8, scores on the host; the loop in float64 stops at the residual "
        "that bounds the same error.\n"
        + table(["graph", "PageRank, ms", "steps", "loop, ms", "steps", "times faster"], walks)
        + "\nThe least over the graphs:\n"
        + table(["figure", "times faster", "aim"], figures)
        + heading("Walks together, top lists and HITS on a GPU", parts)
        + "\nThe same graphs and device. Walks: the time per iteration of each of 8 or 32 together, and how "
        "many times less that is than one alone.\n"
        + table(
            [
                "graph",
                "8 walks, us each",
                "over one",
                "32 walks, us each",
                "over one",
                "first 100 scores, us",
                "HITS, ms",
                "steps",
            ],
            others,
        )
    )


def choice_of_device() -> str:
    """Return the section on `device="auto"` of reductions and estimators."""
    results = load("reductions_crossover")
    rows = [
        [method, f"{found['right']} of {len(found['sizes'])}", f"{found['largest_cost']:.2f}"]
        for method, found in results["methods"].items()
    ]
    return (
        heading("The choice of a device", results)
        + f"\n{results['gpu']} and {results['cores']} cores. Ten sizes of each method, four of them within "
        "twice the crossover on either side; rows in main memory. The cost of a pick is its time over "
        "that of the better device. Right in nine and a cost of at most 1.3 are the aim.\n"
        + table(["method", "right", "largest cost"], rows)
    )


def k_means_on_gpu() -> str:
    """Return the sections on sparse k-means, on its first centres, and on rows larger than a GPU."""
    seeding, blocks, sparse = load("gpu_seeding"), load("gpu_blocks"), load("gpu_sparse_clusters")
    kinds = ("parallel", "plus_plus", "torch_parallel", "torch_plus_plus")
    first = [
        [
            f"{row['rows']} x {row['columns']}, k {row['k']}",
            *(f"{row['seconds'][kind]:.3f}" for kind in kinds),
            f"{row['inertia']['torch_parallel'] / row['inertia']['parallel']:.2f}",
        ]
        for row in seeding["rows"]
    ]
    copied = [
        [
            f"{row['rows']} x {row['columns']}, k {row['clusters']}",
            f"{row['stay']} of {row['blocks']}",
            f"{row['ms']:.1f}",
            f"{row['gb_per_s']:.1f}" if row["copied_gb"] else "-",
        ]
        for row in blocks["rows"]
    ]
    passes = [
        [
            f"{row['rows']} x {row['columns']}, {row['stored'] / row['rows']:.0f} per row, k {row['k']}",
            *(ms(row["seconds"][kind]) for kind in ("gpu", "torch", "cpu", "gpu_seeding", "cpu_seeding")),
            f"{row['seconds']['torch'] / row['seconds']['gpu']:.1f}",
        ]
        for row in sparse["rows"]
    ]
    return (
        heading("Sparse k-means on a GPU", sparse)
        + f"\n{sparse['gpu']}. A whole pass over compressed rows of float32: labels that are exact in "
        "float64, sums and inertia, from and to main memory. PyTorch's product, minima and index_add are in "
        f"float32 and stay on the GPU. The CPU has {sparse['cores']} threads. The seeding columns are a pass "
        "with five candidates.\n"
        + table(
            ["rows, clusters", "ms", "PyTorch ms", "CPU ms", "seeding ms", "CPU seeding ms", "times faster"],
            passes,
        )
        + heading("First centres of k-means on a GPU", seeding)
        + f"\n{seeding['gpu']}. Seconds of k-means|| (parallel) and k-means++, ours and in PyTorch, which "
        "draws one row per centre; the inertia of its k-means|| over that of ours.\n"
        + table(["rows, clusters", "parallel", "++", "PyTorch, parallel", "PyTorch, ++", "inertia"], first)
        + heading("Rows larger than a GPU", blocks)
        + f"\n{blocks['gpu']}. A pass of k-means; blocks that do not stay on the GPU are copied in each "
        f"pass. A copy from pinned memory has {blocks['copy_gb_per_s']:.1f} GB/s.\n"
        + table(["rows, clusters", "blocks that stay", "ms", "GB/s"], copied)
    )


def reductions_on_gpu() -> str:
    """Return the section on reductions and estimators on a GPU."""
    programs, clusters = load("reductions_gpu"), load("gpu_clusters")
    mixture, scaling = load("gpu_mixture"), load("gpu_mds")

    def peer(row: dict[str, Any], name: str) -> str:
        return ms(row["seconds"][name]) if name in row["seconds"] else "-"

    written = [
        [
            f"{row['program']}, {row['rows']} x {row['columns']}" + (f", k {row['k']}" if row["k"] else ""),
            peer(row, "ours"),
            peer(row, "estimator"),
            f"{row['ratio']:.2f}" if row["ratio"] else "-",
            peer(row, "cupy"),
            peer(row, "torch"),
            f"{row['compile_seconds'][0]:.2f}",
            f"{row['compile_seconds'][1]:.3f}",
        ]
        for row in programs["rows"]
    ]
    lloyd = [
        [
            f"{row['rows']} x {row['columns']}, k {row['k']}, spread {row['spread']:g}",
            peer(row, "ours"),
            peer(row, "torch"),
            peer(row, "torch_tf32"),
            peer(row, "flash"),
            f"{row['ratio']:.1f}",
            f"{100 * row['rechecked']:.2f} %",
            f"{100 * row['flash_wrong']:.2f} %" if "flash_wrong" in row else "-",
        ]
        for row in clusters["rows"]
    ]
    others = []
    for key, title in (("full", "EM, full"), ("diag", "EM, diagonal"), ("gram", "Gram matrix")):
        row = mixture[key]
        others += [
            [
                f"{title}, {row['rows']} rows, {name}",
                ms(row["bmrm"]),
                ms(row[name]),
                f"{row[name] / row['bmrm']:.1f}",
                f"{row['bmrm, error']:.0e}",
                f"{row[f'{name}, error']:.0e}",
            ]
            for name in ("PyTorch", "PyTorch, shifted", "PyTorch, features")
            if name in row
        ]
    maps = [
        [
            f"{row['points']} x {row['axes']}, {row['kind']}",
            peer(row, "ours"),
            peer(row, "torch"),
            peer(row, "torch.compile"),
            f"{row['of_read']:.2f}",
        ]
        for row in scaling["rows"]
    ]
    return (
        heading("Reductions on a GPU", programs)
        + f"\n{programs['gpu']}. Row functions compiled by NVRTC, against the kernels of our estimators "
        "(0.7 of their speed is the aim), and the usual forms of CuPy and PyTorch; rows and results stay on "
        "the GPU. Processor seconds to compile: with nothing cached (at most 0.5 is the aim), and from the "
        "disk.\n"
        + table(
            ["program", "ms", "estimator ms", "ratio", "CuPy ms", "PyTorch ms", "cold", "cached"], written
        )
        + heading("k-means on a GPU", clusters)
        + "\nA whole pass: exact labels, sums and inertia, against the best of four forms in PyTorch, in "
        "float32 and in tf32; the ratio is that to float32. Rows that the fast pass cannot decide are "
        "decided in float64. flash-kmeans: an iteration, and its labels that are not those of float64.\n"
        + table(
            [
                "rows, clusters",
                "ms",
                "PyTorch ms",
                "tf32 ms",
                "flash ms",
                "times faster",
                "in float64",
                "wrong",
            ],
            lloyd,
        )
        + heading("Mixtures and Gram matrices on a GPU", mixture)
        + "\nAn E and M step, and a Gram matrix of centred rows; errors are relative, against float64.\n"
        + table(["task, peer", "ms", "peer ms", "times faster", "error", "peer's error"], others)
        + heading("Multidimensional scaling on a GPU", scaling)
        + "\nAn iteration of SMACOF. The last column is the time of one read of the dissimilarities, at the "
        f"speed of a copy ({scaling['copy_bytes_per_second'] / 1e9:.0f} GB/s), over the time of the "
        "iteration.\n" + table(["points, kind", "ms", "PyTorch ms", "torch.compile ms", "of one read"], maps)
    )

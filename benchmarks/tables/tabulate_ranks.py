"""The sections of docs/performance.md on solves over several ranks, on CPUs and on GPUs."""

from __future__ import annotations

from benchmarks.tables.pages import heading, load, table

MEGABYTES = ("bytes_per_iteration", "model_bytes")
WANTED = 1.7  # times faster, of two ranks


def ranks() -> str:
    """Return the section on several ranks."""
    results = load("scaling")
    first = results["rows"][0]
    rows = [
        [
            str(row["ranks"]),
            f"{row['seconds']:.3f}",
            f"{min(row['all_seconds']):.3f} to {max(row['all_seconds']):.3f}",
            str(row["iterations"]),
            f"{1e3 * row['seconds'] / row['iterations']:.1f}",
            f"{results['speedups'][str(row['ranks'])]:.2f}",
            f"{results['controls'][str(row['ranks'])]:.2f}",
        ]
        + [f"{row[bytes]['gradients'] / 1e6:.3f}, {row[bytes]['weights'] / 1e6:.3f}" for bytes in MEGABYTES]
        + [f"{sum(row['calls_per_iteration'].values()):.1f}"]
        for row in results["rows"]
    ]
    two = results["speedups"]["2"]
    columns = ["ranks", "seconds", "all runs", "iterations", "ms each", "faster", "control"]
    return (
        heading("Several ranks", results)
        + f"\nHinge on {first['rows']} x {first['columns']} with {first['nnz']} nonzeros, "
        f"lam {results['lam']:g}, to a relative gap of {results['tol']:g}; one core per rank, medians of "
        f"{len(first['all_seconds'])} runs in turns. "
        "The control is independent processes on the same rows. "
        "MB are what a rank sends per iteration, of gradients and of weights, as counted and by the model of "
        "docs/scaling.md.\n"
        + table([*columns, "MB counted", "MB modelled", "exchanges"], rows)
        + f"\n2 ranks / one {two:.2f}, aim {WANTED:g}: {'reached' if two >= WANTED else 'missed'}.\n"
    )


def owned() -> str:
    """Return the section on weights owned in parts."""
    results = load("scaling_owned")
    rows = [
        [
            whole["case"].removesuffix(f" {whole['columns']}"),
            str(whole["columns"]),
            f"{whole['touched'] / whole['columns']:.2f}",
            ", ".join(f"{1e3 * row['seconds'] / row['iterations']:.1f}" for row in pair),
            f"{whole['seconds'] / part['seconds']:.2f}",
            *(
                ", ".join(f"{row[size] / 1e6:.{digits}f}" for row in pair)
                for size, digits in (
                    ("vectors_bytes", 1),
                    ("store_bytes", 1),
                    ("bytes_per_iteration", 2),
                    ("model_bytes", 2),
                )
            ),
        ]
        for pair in zip(results["rows"][::2], results["rows"][1::2], strict=True)
        for whole, part in [pair]
    ]
    first = results["rows"][0]
    columns = ["rows of", "columns", "touched", "ms", "faster", "MB of vectors", "MB of cuts"]
    return (
        heading("Weights owned in parts", results)
        + f"\nAll weights on each of {first['ranks']} ranks, or some columns of them on each: the first and "
        "the second number of a pair. Milliseconds per iteration, the mean of "
        f"{first['iterations']}, hinge at lam {results['lam']:g}, one cut per pass, one core per rank, "
        f"medians "
        f"of {len(first['all_seconds'])} runs in turns. Rows are those of the text, or "
        f"{results['made_rows']} of {results['words']} words, drawn by Zipf's law or evenly, few a tenth of "
        "them; `prior` is a penalty with a prior mean. `touched` is the share of columns in which the rows "
        "of a rank have entries. Vectors are the most that a rank holds besides X and the cuts. MB sent are "
        "those of a rank per iteration, as counted and by the model of docs/scaling.md.\n"
        + table([*columns, "MB sent", "MB modelled"], rows)
    )


def graph_ranks() -> str:
    """Return the section on graphs over several ranks."""
    results = load("scaling_graph")
    rows = []
    for name, each in results["graphs"].items():
        for row in each:
            for task, found in row["tasks"].items():
                times = [1e3 * seconds for seconds in row["all_seconds"][task]]
                rows.append(
                    [
                        name,
                        task,
                        str(row["ranks"]),
                        f"{1e3 * row['seconds'][task]:.1f}",
                        f"{min(times):.1f} to {max(times):.1f}",
                        f"{row['faster'][task]:.2f}",
                        f"{row['control_faster'][task]:.2f}",
                        str(found["products"]),
                        f"{found['sent'] / 1e6:.2f}",
                    ]
                )
    shares = [
        f"{name} on {row['ranks']} ranks: nodes {max(row['nodes']) * row['ranks'] / sum(row['nodes']):.3f}, "
        f"edges {max(row['edges']) * row['ranks'] / sum(row['edges']):.3f}, read in "
        f"{row['seconds']['read']:.2f} s"
        for name, each in results["graphs"].items()
        for row in each
        if row["ranks"] > 1
    ]
    columns = ["graph", "task", "ranks", "ms", "all runs", "faster", "control", "products", "MB sent"]
    return (
        heading("Graphs over several ranks", results)
        + f"\nPageRank to 1e-8, {results['queries']} random walks in one read and HITS, one core per rank: "
        f"the least of {results['rounds']} times per run, and the median over the runs. The control is the "
        "same computation by independent processes at the same time, R times one over them: what the machine "
        "allows. MB are what a rank sends per product.\n"
        + table(columns, rows)
        + f"\nThe largest share of a rank over the mean: {'; '.join(shares)}.\n"
    )


def gpus() -> str:
    """Return the section on several GPUs."""
    results = load("scaling_gpu")
    first = results["rows"][0]
    rows = [
        [
            str(row["gpus"]),
            f"{1e3 * row['seconds']:.1f}",
            str(row["iterations"]),
            f"{row['iteration_us']:.0f}",
            f"{row['model_us']:.0f}",
            f"{1e6 * row['exchange_seconds']:.0f}",
            f"{row['faster']:.2f}",
            f"{row['control_faster']:.2f}",
            row["gradients_by"],
        ]
        for row in results["rows"]
    ]
    columns = [
        "GPUs",
        "ms",
        "iterations",
        "us each",
        "us modelled",
        "us of exchange",
        "faster",
        "control",
        "by",
    ]
    judged = "; ".join(
        f"{figure['name']} {figure['value']:.2f}, aim {figure['bound']:g}: "
        + ("reached" if figure["passed"] else "missed")
        for figure in results["figures"]
    )
    return (
        heading("Several GPUs", results)
        + f"\n{first['gpu']}s of one host, one rank each. Hinge on {first['rows']} x {first['columns']} with "
        f"{first['nnz']} nonzeros, lam {results['lam']:g}, to an absolute gap of {results['gap']:g}, "
        "resident; medians. The control is the same number of iterations of each GPU on its own rows, at "
        "the same "
        "time, with nothing shared. The model is that of docs/scaling.md.\n"
        + table(columns, rows)
        + f"\n{judged}.\n"
    )


def graph_gpus() -> str:
    """Return the section on graphs over several GPUs."""
    results = load("scaling_graph_gpu")
    first = results["rows"][0]
    rows = [
        [
            row["graph"],
            str(row["gpus"]),
            row["vectors_by"] or "none",
            name,
            f"{1e3 * seconds:.3f}",
            f"{row['faster'][name]:.2f}",
        ]
        for row in results["rows"]
        for name, seconds in row["seconds"].items()
    ]
    judged = "; ".join(
        f"{figure['name']} {figure['value']:.2f}, aim {figure['bound']:g}: "
        + ("reached" if figure["passed"] else "missed")
        for figure in results["figures"]
    )
    return (
        heading("Graphs over several GPUs", results)
        + f"\n{first['gpu']}s of one host, one rank each; {first['nodes']} nodes and {first['edges']} edges. "
        "`step` is a light step with all vector work and the exchange of messages; `bare` is one on a ring "
        "of as many nodes, almost without a product; `walks` is a step of 8 walks; `begin` is what a call "
        "does before its first step and after its last one, `end` the way of all scores to each process; "
        "PageRank to a proven 1e-8, with all scores in each process, and HITS to 1e-8. Times of the slowest "
        "rank, medians.\n"
        + table(["graph", "GPUs", "messages by", "part", "ms", "faster"], rows)
        + f"\n{judged}.\n"
    )

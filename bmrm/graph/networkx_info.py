"""What NetworkX reads about this backend whenever it is imported; so it imports nothing."""

from __future__ import annotations

_SITE = "https://networkx.org/documentation/stable/reference/algorithms/generated"
_URL = f"{_SITE}/networkx.algorithms.link_analysis"

_TOLERANCE = (
    "As in NetworkX, `tol` counts times the number of nodes; the error of the scores, in the sum of absolute "
    "values, is proven to be at most that, and at most 1e-6 in any case."
)


def get_info() -> dict[str, object]:
    """Return the description of the backend."""
    return {
        "backend_name": "bmrm",
        "project": "bmrm",
        "package": "bmrm",
        "short_summary": "PageRank with proven errors and HITS on a resident matrix",
        "default_config": {},
        "functions": {
            "pagerank": {
                "url": f"{_URL}.pagerank_alg.pagerank.html",
                "additional_docs": _TOLERANCE,
                "additional_parameters": {
                    "method : {'auto', 'power', 'anderson'}, default 'auto'": "See `bmrm.graph.pagerank`.",
                },
            },
            "hits": {
                "url": f"{_URL}.hits_alg.hits.html",
                "additional_docs": "By the Golub-Kahan process; `nstart` is not used.",
                "additional_parameters": {},
            },
        },
    }

"""Write the tables of docs/migration.md.

python scripts/migration_tables.py

LIBLINEAR's table comes from the types that ``-s`` takes. The lists below have those of svm_perf and of the
package bmrm of R; the tests compare their risks with ours.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from losses_tables import replace_tables, table

from bmrm.cli.solver_types import SOLVER_TYPES

PAGE = Path(__file__).parents[1] / "docs" / "migration.md"

KINDS = {
    "classes": "several classes: one against the rest",
    "joint": "several classes: jointly",
    "regression": "`-p` is 0.1 if not given",
    "novelty": "lambda = 1/(nu m); `-n` is 0.5 if not given; `-c`, `-B` and `-wi` do not count",
}


class Peer(NamedTuple):
    """A loss of another program, and what minimises the same.

    - ``theirs``, ``ours``: as they are called
    - ``lam``: a Python expression of C or LAMBDA and m
    - ``scale``: our margins are theirs times this expression of m
    """

    theirs: str
    ours: str
    lam: str
    scale: str = "1"


SVM_PERF = (
    Peer("-l 1 (F1)", "f_beta", "25 / (C * m**2)", "m / 50"),
    Peer("-l 2 (error rate)", "hinge", "1 / (100 * C)"),
    Peer("-l 3 (precision/recall break-even)", "prbep", "25 / (C * m**2)", "m / 50"),
    Peer("-l 4 (precision at k)", "precision_at_k", "25 / (C * m**2)", "m / 50"),
    Peer("-l 5 (recall at k)", "recall_at_k", "25 / (C * m**2)", "m / 50"),
    Peer("-l 10 (ROC area)", "roc_area", "1 / (100 * C)"),
)

R_BMRM = (
    Peer("hingeLoss", "hinge", "LAMBDA / m"),
    Peer("logisticLoss", "logistic", "LAMBDA / m"),
    Peer("lmsRegressionLoss", "squared", "LAMBDA / m"),
    Peer("ladRegressionLoss", "absolute", "LAMBDA / m"),
    Peer("quantileRegressionLoss, q", "quantile, tau = 1 - q", "LAMBDA / m"),
    Peer("epsilonInsensitiveRegressionLoss", "epsilon_insensitive", "LAMBDA / m"),
    Peer("softMarginVectorLoss", "multiclass", "LAMBDA / m"),
    Peer("rocLoss", "roc_area", "LAMBDA"),
    Peer("fbetaLoss", "f_beta", "LAMBDA / (4 * m**2)", "2 * m"),
    Peer("ordinalRegressionLoss", "pairwise, all rows in one group", "LAMBDA"),
)


def liblinear_table() -> str:
    """Return the table of solver types."""
    rows = [
        [f"`-s {number}`", f"`--loss {found.loss} --reg {found.reg}`", KINDS[found.kind]]
        for number, found in SOLVER_TYPES.items()
    ]
    return table(["LIBLINEAR", "the same here", "note"], rows)


def peer_table(program: str, peers: tuple[Peer, ...]) -> str:
    """Return the table of a program's losses."""
    rows = [
        [_named(peer.theirs), _named(peer.ours), _formula(peer.lam), _formula(f"{peer.scale} * u")]
        for peer in peers
    ]
    return table([program, "loss here", "lambda", "margins here"], rows)


def _named(text: str) -> str:
    """Mark what is typed as code, but not the words after it."""
    name = re.split(r",| \(", text)[0]
    return f"`{name}`{text[len(name) :]}"


def _formula(text: str) -> str:
    return f"`{text.replace('**2', '²').replace('1 * ', '').replace(' * ', ' ')}`"


TABLES = {
    "liblinear": liblinear_table,
    "svm_perf": lambda: peer_table("svm_perf", SVM_PERF),
    "r": lambda: peer_table("R", R_BMRM),
}


def page(text: str) -> str:
    """Return the page with new tables."""
    return replace_tables(text, TABLES, PAGE)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    print(f"written to {PAGE}")

"""LLVM text that combines whole arrays by an operator that is a function of two numbers."""

from __future__ import annotations

from bmrm.formulas.cpu.lanes import NAME, operator_printer
from bmrm.formulas.language.operators import FunctionOperator


def print_merge(operator: FunctionOperator) -> str:
    """Print a function of a table: addresses of what was there and what is new, and how many numbers."""
    printer = operator_printer(operator)
    kind = printer.scalar(operator.type)
    slots = []
    for place, of in enumerate(("ptr", "ptr", "i64")):
        at = printer.new(f"getelementptr i64, ptr %table, i64 {place}")
        slots.append(printer.new(f"load {of}, ptr {at}"))
    old, new, count = slots
    with printer.counted("0", count) as number:
        to, of = (printer.new(f"getelementptr {kind}, ptr {each}, i64 {number}") for each in (old, new))
        printer.update(operator, to, printer.new(f"load {kind}, ptr {of}"), kind)
    head = [f"define void @{NAME}(ptr %table) #0 {{", "entry:", *printer.entry, "  br label %begin", "begin:"]
    return "\n".join([*head, *printer.lines, "  ret void", "}", *printer.declarations(), ""])

"""Compilation of long functions: errors, time, memory, and Ctrl-C."""

import gc
import linecache
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from bmrm.base.interrupts import wait_for
from bmrm.errors import ReductionError
from bmrm.formulas.cpu import native
from bmrm.reductions import reduction

X = np.ones((5, 4))
needs_compiler = pytest.mark.skipif(not native.can_compile(), reason="llvmlite is not installed")


def made(body: str, name: str):
    """Make a reduction from text; a unique name keeps the texts apart."""
    text = f"def f(x, out):\n{body}\n"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {}
    exec(compile(text, name, "exec"), scope)
    return reduction(scope["f"])


def test_text_that_is_nested_too_deeply():
    terms = made("    out += " + " + ".join(f"x[{i % 4}]" for i in range(340)), "<terms>")
    for call in (terms, terms.python):
        with pytest.raises(ReductionError, match=r"^f(, line \d)?: found code nested too deeply"):
            deep(600, lambda call=call: call(X))


def deep(levels, function):
    return function() if levels == 0 else deep(levels - 1, function)


@needs_compiler
def test_time_grows_with_the_text():
    """Four times the text took some 13 times the time."""

    def seconds(statements):
        body = "".join(f"    a = a * 0.25 + x[{i % 4}] + {i % 97}\n" for i in range(statements))
        function = made("    a = x[0]\n" + body + "    out += a", f"<{statements}>")
        text = function.source("cpu", X)
        began = time.process_time()
        native._make_object(text, native._machine())
        return time.process_time() - began

    assert seconds(800) < 8 * max(seconds(200), 0.05)


@needs_compiler
def test_functions_that_are_gone_leave_no_memory():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    def make(first):
        for i in range(first, first + 24):
            assert made(f"    out += x[0] * {i}.25", "<same>")(X).out == len(X) * (i + 0.25)
        gc.collect()

    make(0)
    before = resident()
    make(1000)
    assert resident() - before < 7e6  # 22e6 if each engine stays


SLOW = """
import time
from bmrm.base.interrupts import wait_for
print("ready", flush=True)
wait_for(lambda: time.sleep(3))
"""


def test_ctrl_c_ends_the_wait_for_a_compiler():
    process = subprocess.Popen([sys.executable, "-c", SLOW], stdout=-1, stderr=-1, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in err


def test_a_failure_of_the_work_is_raised():
    with pytest.raises(ZeroDivisionError):
        wait_for(lambda: 1 // 0)


CYCLES = """
import gc, types
from bmrm.formulas.cpu import native
for _ in range(5):
    text = f"define void @{native.NAME}(ptr %p) {{ ret void }}"
    cycle = types.SimpleNamespace(code=native.compile_text(text))
    cycle.itself = cycle
    cycle.code(None)
    del cycle
    gc.collect()
"""


@needs_compiler
def test_code_in_cycles_is_collected():
    """Whoever collects cycles finishes their objects in any order; memory that is freed is overwritten."""
    environ = {**os.environ, "MALLOC_PERTURB_": "165"}
    subprocess.run([sys.executable, "-c", CYCLES], env=environ, check=True)

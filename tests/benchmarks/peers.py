"""Draws a second of OpenDP's vector mechanisms and of diffprivlib, in an environment of their own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = (
    ("opendp", "duckdb", "pyarrow"),
    ("diffprivlib", "scikit-learn<1.7"),
)  # a later one lacks what it needs

MEASURE = """
import json, statistics, time

def rate(draw, n):
    times = []
    for _ in range(4):
        start = time.perf_counter()
        draw()
        times.append(time.perf_counter() - start)
    return n / statistics.median(times[1:]) / 1e6

def opendp(n, scale):
    import opendp.prelude as dp
    dp.enable_features("contrib")
    found = {}
    for kind, zero in ((int, 0), (float, 0.0)):
        atom = dp.atom_domain(T=int) if kind is int else dp.atom_domain(T=float, nan=False)
        for law, metric, make in (
            ("laplace", dp.l1_distance(T=kind), dp.m.make_laplace),
            ("gaussian", dp.l2_distance(T=kind), dp.m.make_gaussian),
        ):
            noise = make(dp.vector_domain(atom), metric, scale=scale)
            values = [zero] * n
            found[("discrete_" if kind is int else "") + law] = rate(lambda: noise(values), n)
    return found

def diffprivlib(n, scale):
    from diffprivlib import mechanisms
    laws = {
        "laplace": mechanisms.Laplace(epsilon=1 / scale, sensitivity=1),
        "discrete_laplace": mechanisms.Geometric(epsilon=1 / scale, sensitivity=1),
        "gaussian": mechanisms.GaussianAnalytic(epsilon=1.0, delta=1e-6, sensitivity=1),
        "discrete_gaussian": mechanisms.GaussianDiscrete(epsilon=1.0, delta=1e-6, sensitivity=1),
    }
    zero = {"discrete_laplace": 0, "discrete_gaussian": 0}
    return {
        name: rate(lambda: [law.randomise(zero.get(name, 0.0)) for _ in range(n)], n)
        for name, law in laws.items()
    }

found = {}
for name, measure, n in (("opendp", opendp, 20_000), ("diffprivlib", diffprivlib, 2_000)):
    try:
        found[name] = measure(n, 10.0)
    except ImportError:
        pass
print(json.dumps(found))
"""


def python() -> Path:
    """Return where the Python of the peers' environment is, or would be."""
    return Path(tempfile.gettempdir()) / "dprelease-bench-peers" / "bin" / "python"


def can_aggregate() -> Path | None:
    """Return that Python if it can aggregate and draw noise; None, with a word, if it can't."""
    needed = [python(), "-c", "import duckdb, opendp, pyarrow"]
    if (
        python().exists()
        and not subprocess.run(needed, check=False, capture_output=True).returncode
    ):
        return python()
    print("OpenDP and DuckDB could not be installed: nothing by hand")
    return None


def run() -> dict[str, dict[str, float]]:
    """Return million draws a second by peer and law; empty, with a word, where none installs."""
    folder = python().parents[1]
    if not python().exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        for packages in PACKAGES:
            install = [python(), "-m", "pip", "install", "--quiet", *packages]
            if subprocess.run(install, check=False, capture_output=True).returncode:
                print(f"{packages[0]} could not be installed here: left out")
    done = subprocess.run([python(), "-c", MEASURE], check=False, capture_output=True, text=True)
    if done.returncode:
        print("the peers could not be measured: left out")
        return {}
    found: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return found

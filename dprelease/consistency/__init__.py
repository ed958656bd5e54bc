"""Make noisy tables consistent: all totals add up, and all errors are known.

There are two layers. Both are computed from published numbers only, so they have no privacy cost,
and anybody can repeat them bit for bit.

**Layer 1** (`estimates`): unbiased least-squares estimates of every cell of every table at every
area, from whatever tables were measured at whatever level, with exact standard errors of cells,
unions of values (`standard_errors`) and any area made of leaves (`areas`).
`variances.Variances.estimable` reports from the declaration, before data is read, which tables can
be estimated.

**Layer 2** (`whole_tables`): non-negative integer tables from the top down, with structural zeros,
in which every total is the sum of its parts; `intervals` from layer 1 around the truth, never
margins around layer 2.

The modules, in the order of processing:

    structure       attributes, the public tree, the noise of the measured tables
    algebra         tables as contrasts of residual spaces: 2^k scalar problems, no matrices
    variances       V, gains and F of each residual space on the tree: without data
    passes          up and down the tree on measured numbers
    cells           contrasts to cells in units of 2**-bits, additive to the last unit
    estimates       the same for trees larger than memory, piece by piece
    subtrees        units of parallel work
    refinement      the order in which layer 2 fixes tables
    whole_tables    layer 2 (small problems: `allotment`, `transport`)
    family          both layers, piece by piece: the entry point for releases

Modules for planning what to measure, without data:

    shares       of the budget, best for declared aims, with a certificate: a folder
    expected     errors by level and table, as measured and after least squares

Guarantees:

- **Same bits**: a function of the measured whole numbers and the declaration. The order, the
  pieces, the number of threads and the version of NumPy don't change a bit: see `fixed_point`. No
  BLAS, no sums of floats.
- **Additive**: exactly, in whole numbers, over tables and levels, in both layers. Values of layer
  1 are multiples of 2**-20 (less where `largest` is large): as floats they still add up exactly,
  in any engine.
- **Errors** are rounded upwards, and the bound of the fixed-point error is added to every margin.
- **Shares** are found in floats and differ with versions of NumPy in their last digits: they are
  rounded and recorded, and `verify` never computes them again.
- Inputs are whole numbers of a lattice. Sums (amounts) are counts of lattice steps: nothing else
  changes.

May import: `dprelease.numerics`, `dprelease.errors`, NumPy, SciPy (for shares), the standard
library. The package draws no random numbers, opens no files and has no notion of privacy: callers
decide whether its inputs may be published.
"""

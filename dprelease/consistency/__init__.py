"""One consistent family of tables from noised ones: all totals add up, all errors are known.

Two layers, both made of published numbers alone, at no price and again by anybody, bit for bit.

**Layer 1** (`estimates`): unbiased least-squares estimates of every cell of every table at every
area, from whatever tables were measured at whatever level, with exact standard errors of cells,
unions of values (`standard_errors`) and any area made of leaves (`areas`). What can't be estimated
is told from the declaration (`variances.Variances.estimable`), before any data is.

**Layer 2** (`whole_tables`): whole, non-negative tables from the top down, with structural zeros,
in which every total is the sum of its parts; `intervals` from layer 1 around the truth, never
margins around layer 2.

The way of the numbers:

    structure    attributes, the public tree, the laws of the measured tables
    algebra      tables as contrasts of residual spaces: 2^k scalar problems, no matrices
    variances    V, gains and F of each residual space on the tree: without data
    passes       up and down the tree on measured numbers
    cells        contrasts to cells in units of 2**-bits, additive to the last unit
    estimates    the same for trees that don't fit a memory, piece by piece

Before any of it, what to measure and what it will be worth, without data:

    shares       of the budget, best for declared aims, with a certificate: a folder
                 (`optimum`, `barrier`; on `shapes` and `jets`: areas that stand alike, derivatives)
    expected     errors by level and table, as measured and after least squares

Guarantees:

- **Same bits**: a function of the measured whole numbers and the declaration. No order, cut into
  pieces, number of threads or version of NumPy changes a bit: see `fixed_point`. No BLAS, no sums
  of floats.
- **Additive**: exactly, in whole numbers, over tables and levels, in both layers. Values of layer
  1 are multiples of 2**-20 (less where `largest` is large): as floats they still add up exactly,
  in any engine.
- **Errors** are rounded upwards, and the bound of what fixed point moves is added to every margin.
- **Shares** are found in floats and differ with versions of NumPy in their last digits: they are
  rounded, recorded, and never computed again by those who verify.
- Inputs are whole numbers of a lattice. Sums (amounts) are counts of lattice steps: nothing else
  changes.

May import: `dprelease.numerics`, `dprelease.errors`, NumPy, the standard library. Draws nothing,
opens nothing, knows no privacy: whether its inputs may be seen is decided elsewhere.
"""

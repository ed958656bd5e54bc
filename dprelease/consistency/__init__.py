"""Make noisy tables consistent: all totals add up, and all errors are known.

There are two layers. Both are computed from published numbers only, so they have no privacy cost,
and anybody can repeat the computation and get the same bits.

**Estimates (layer 1)**, in `estimates`: unbiased least-squares estimates of every cell of every
table at every area, computed from all measured tables of all levels. Their standard errors are
exact (`standard_errors`): those of cells, of unions of values, and of any area made of leaves.
`variances.Variances.estimable` derives from the declaration, before data is read, which tables can
be estimated.

**Integer tables (layer 2)**, in `integer_tables`: non-negative integers, computed from the top of
the tree down, with structural zeros. Every total is the sum of its parts. Intervals around the true
value are computed from the estimates (`family`). There are no margins around integer tables.

The modules, in the order of processing:

    structure       the attributes, the public tree, and the noise of the measured tables
    algebra         tables as contrasts of residual spaces: 2^k scalar problems, without matrices
    variances       V, gains and F of each residual space on the tree, computed without data
    passes          the passes up and down the tree on measured numbers
    cells           cells in units of 2**-bits from contrasts, additive to the last unit
    estimates       all of these steps for trees larger than memory, piece by piece
    subtrees        units of parallel work
    integer_tables  a folder: integer tables, by least squares or along nested tables
    family          both layers, piece by piece: the entry point for releases

Modules for planning what to measure, without data:

    shares       a folder: the shares of the budget that are best for declared aims, with a
                 certificate of optimality
    expected     expected errors by level and table, as measured and after least squares

Guarantees:

- **Reproducible**: both layers are functions of the measured whole numbers and the declaration.
  The order of processing, the pieces, the number of threads and the version of NumPy don't change
  a bit (see `fixed_point`), because no BLAS is called, and floats are only summed one after another
  in a fixed order (`integer_tables.nearest_tables`).
- **Additive**: values of both layers add up exactly over tables and levels. Estimates are multiples
  of 2**-20 (of a coarser unit where `largest` is large), so that they add up exactly as floats too,
  in any engine.
- **Errors** are rounded upwards, and a bound of the fixed-point error is added to every margin.
- **Shares** are computed in floats, and their last digits depend on the version of NumPy. They are
  therefore rounded and recorded, and `verify` never computes them again.
- Inputs are whole numbers of steps. A sum of amounts is a number of steps, and is processed as a
  count is.

This package may import `dprelease.numerics`, `dprelease.errors`, NumPy, SciPy (for shares) and the
standard library. It draws no random numbers, opens no files and has no notion of privacy: callers
decide whether its inputs may be published.
"""

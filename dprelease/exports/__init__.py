"""Write the published tables in other file formats, one module per format.

Every export is post-processing. It is made only from the Parquet tables of a release folder and
from its manifest, so anybody who has these can make it again; `verify` does so. The bytes are
deterministic: no clock, no random names, only the declared order. This package imports no engine,
no noise and no entropy.
"""

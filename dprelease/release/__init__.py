"""From a plan to published files: noise, Parquet, manifest, verification."""

"""Turn a plan into published files: noise, Parquet, manifest, verification."""

"""Turn a plan into published files: noise, Parquet files, a manifest, a ledger entry."""

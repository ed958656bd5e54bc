"""Addresses of stores: no credentials, and patterns match as in local paths."""

from __future__ import annotations

import glob
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dprelease.errors import DpReleaseError
from dprelease.schema.load import table_from_mapping
from dprelease.system.stores.address import matches, store_address

SECRET = "SECRETsecret"
WITH_SECRETS = [
    "s3://AKIA:{}@bucket/t.parquet",
    "s3://{}@bucket/t.parquet",
    "s3://bucket:{}/t.parquet",
    "s3://bucket/t.parquet?X-Amz-Signature={}",
    "s3://bucket/t.parquet?a/b=c&sig=x/{}",
    "gs://bucket/t.parquet#{}",
    "az://container/t.csv?sv=2024&sig={}",
    "abfss://container:{}@account.dfs.core.windows.net/t.parquet",
    "https://user:{}@host/t.csv",
    "https://{}@host/t.csv",
    "https://host/t.csv?token={}",
    "https://host/t.csv?{}",
    "https://host/t.csv#{}",
    "https://:{}@host/t.csv",
]
NOT_READABLE = [
    "s3://", "s3://bucket//t.parquet", "s3://bucket/../t.parquet", "s3://bucket/a/./t.parquet",
    "s3://bucket/\x07t.parquet", "https:///t.parquet", "https://host/*.parquet",
    "https://host/folder/", "https://host/a/%2e%2e/t.csv", "https://host/a%00.csv",
    "s3://bucket/t.xlsx", "s3://bucket/t.doc", "https://host/t.sqlite",
    "abfss://@account.dfs.core.windows.net/t.parquet", "s3://buck et/t.parquet",
]  # fmt: skip


def declare(path: str, **more: object) -> None:
    source = {"path": path, **more}
    columns = {"person": {"type": "integer"}}
    table_from_mapping({"table": "t", "source": source, "columns": columns}, Path())


@pytest.mark.parametrize("uri", WITH_SECRETS)
def test_credentials_in_an_address_are_refused_and_not_repeated(uri: str) -> None:
    with pytest.raises(DpReleaseError, match="DP-SCHEMA-011") as caught:
        declare(uri.format(SECRET))
    assert SECRET not in f"{caught.value}{caught.value.__cause__}{caught.value.__context__}"


@pytest.mark.parametrize(
    "uri", ["ftp://host/t.csv", "mysql://host/db", "s3a://bucket/t.csv", "http://host/t.csv"]
)
def test_an_unsupported_scheme_is_named(uri: str) -> None:
    with pytest.raises(DpReleaseError, match=f"DP-SCHEMA-011.* {uri.split('//')[0]}//"):
        declare(uri)


@pytest.mark.parametrize("uri", NOT_READABLE)
def test_unsupported_addresses_are_refused(uri: str) -> None:
    with pytest.raises(DpReleaseError, match="DP-SCHEMA-011"):
        declare(uri)


def test_addresses_of_all_stores_are_accepted() -> None:
    for uri in (
        "s3://bucket/t.parquet", "s3://bucket/", "s3://bucket/a/**/*.csv.gz", "gs://b/x=?/*.jsonl",
        "az://container/t.parquet", "https://host:8443/a%20b/t.csv", "https://[::1]/t.jsonl",
        "abfss://container@account.dfs.core.windows.net/t.parquet",
    ):  # fmt: skip
        declare(uri)


PART = st.text("ab._*?[]", min_size=1, max_size=3) | st.just("**")
NAME = st.text("ab._", min_size=1, max_size=3).filter(lambda name: name.strip("."))


@given(
    st.lists(PART, min_size=1, max_size=3).map("/".join),
    st.lists(st.lists(NAME, min_size=1, max_size=3).map("/".join), min_size=1, max_size=5),
)
@example("**", ["a", "b/a", ".b/a", "b/.a"])
@example("a/**/b", ["a/b", "a/a/b", "a/.a/b", "a/a/a/b"])
@example("[!a]*", ["a", "b", ".b"])
def test_patterns_match_as_in_local_paths(pattern: str, keys: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for key in keys:
            file = Path(folder, key)
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.touch()
            except OSError:  # one key is a folder of another
                continue
        files = [one for one in Path(folder).rglob("*") if one.is_file()]
        stored = {one.relative_to(folder).as_posix() for one in files}
        local = glob.glob(pattern, root_dir=folder, recursive=True)
        expected = {os.path.normpath(one) for one in local} & stored
        assert {key for key in stored if matches(pattern, key)} == expected


def test_the_fixed_folder_of_a_pattern_contains_all_matches() -> None:
    for pattern, folder in {
        "a/b/*.csv": "a/b", "a/*/c.csv": "a", "*.csv": "", "a/b.csv": "a", "a/**/b/c?.csv": "a",
    }.items():  # fmt: skip
        address = store_address(f"s3://bucket/{pattern}")
        assert address is not None
        assert address.fixed_folder == folder

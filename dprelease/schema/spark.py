"""Spark as declared: which cluster, and what its session is configured with."""

from __future__ import annotations

from pydantic import Field

from dprelease.schema.model import Model
from dprelease.schema.values import Text


class SparkSpec(Model):
    """Where Spark runs; what is not said is left to its own configuration.

    `master`: for example local[8], spark://host:7077, yarn, k8s://https://host:443 or, for Spark
    Connect, sc://host. Both are published with the release, as all of its file: secrets belong into
    the configuration of Spark.
    """

    master: Text | None = None
    config: dict[Text, Text] = Field(default_factory=dict)

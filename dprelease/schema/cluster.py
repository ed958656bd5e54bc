"""Spark as declared: which cluster, and what its session is configured with."""

from __future__ import annotations

from pydantic import Field

from dprelease.schema.field_types import Text
from dprelease.schema.model import Model


class SparkSpec(Model):
    """Where Spark runs; what is not said is left to its own configuration.

    `master`: for example local[8], spark://host:7077, yarn, k8s://https://host:443 or, for Spark
    Connect, sc://host. `staging`: a folder (a URI of Spark's) that all executors write to, where
    they leave noised parts of large results, as confidential as the data; without it, the driver
    adds the noise. All of it is published with the release, as all of the file: secrets belong into
    the configuration of Spark itself.
    """

    master: Text | None = None
    staging: Text | None = None
    config: dict[Text, Text] = Field(default_factory=dict)

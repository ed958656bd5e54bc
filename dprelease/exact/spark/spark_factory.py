"""Register the engine spark, which distributes rows over executors."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from dprelease.exact.engine_api import EngineKind, Sources

if TYPE_CHECKING:
    from dprelease.exact.settings import Settings
    from dprelease.exact.spark.sessions.spark_session import SparkSettings as SparkSettings
    from dprelease.exact.spark.spark_engine import SparkEngine
    from dprelease.schema.release import ReleaseSpec


class SparkKind(EngineKind):
    """Opens the engine spark."""

    def open(
        self, sources: Sources, spec: ReleaseSpec | None, settings: Settings
    ) -> AbstractContextManager[SparkEngine]:
        """Return a context manager that opens an engine over these sources, and closes it.

        The settings of the engine duckdb don't apply to executors.
        """
        from dprelease.exact.spark.spark_engine import SparkEngine

        return SparkEngine.open(
            sources.declared,
            sources.frame,
            sources.joined,
            sources.joined_frame,
            _spark_settings(spec),
        )

    def keep_alive(self, spec: ReleaseSpec) -> AbstractContextManager[None]:
        """Keep one application of Spark alive, because it takes many seconds to start."""
        from dprelease.exact.spark.sessions.spark_session import keep_application

        return keep_application(_spark_settings(spec))

    def exposure_texts(self, spec: ReleaseSpec) -> list[str]:
        """Return texts on what Spark exposes to people other than the recipients."""
        from dprelease.exact.spark.sessions.private import exposure_texts

        return exposure_texts(spec.spark.master, spec.spark.config)


def _spark_settings(spec: ReleaseSpec | None) -> SparkSettings:
    """Return the settings of Spark that a declaration has, or the defaults."""
    from dprelease.exact.spark.sessions.spark_session import SparkSettings

    if spec is None:
        return SparkSettings()
    return SparkSettings(spec.spark.master, spec.spark.staging, spec.spark.config)


ENGINE = SparkKind()

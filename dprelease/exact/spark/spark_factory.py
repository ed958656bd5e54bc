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
    """Opens the engine spark; see `EngineKind`."""

    def open(
        self, sources: Sources, spec: ReleaseSpec | None, settings: Settings
    ) -> AbstractContextManager[SparkEngine]:
        """See `EngineKind.open`; settings of the engine duckdb don't apply to executors."""
        from dprelease.exact.spark.spark_engine import SparkEngine

        return SparkEngine.open(
            sources.declared,
            sources.frame,
            sources.joined,
            sources.joined_frame,
            _spark_settings(spec),
        )

    def keep_alive(self, spec: ReleaseSpec) -> AbstractContextManager[None]:
        """Keep one application alive, which takes many seconds to start; see `EngineKind`."""
        from dprelease.exact.spark.sessions.spark_session import keep_application

        return keep_application(_spark_settings(spec))

    def exposure_texts(self, spec: ReleaseSpec) -> list[str]:
        """See `EngineKind.exposure_texts`."""
        from dprelease.exact.spark.sessions.exposure import exposure_texts

        return exposure_texts(spec.spark.master, spec.spark.config)


def _spark_settings(spec: ReleaseSpec | None) -> SparkSettings:
    from dprelease.exact.spark.sessions.spark_session import SparkSettings

    if spec is None:
        return SparkSettings()
    return SparkSettings(spec.spark.master, spec.spark.staging, spec.spark.config)


ENGINE = SparkKind()

"""Register the engine spark, which distributes rows over executors."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from dprelease.exact.engine_api import EngineKind, Sources

if TYPE_CHECKING:
    from dprelease.exact.settings import Settings
    from dprelease.exact.spark.sessions.spark_session import Settings as SparkSettings
    from dprelease.exact.spark.spark_engine import SparkEngine
    from dprelease.schema.release import ReleaseSpec


class ClusterKind(EngineKind):
    """Opens the engine spark; see `EngineKind`."""

    def open(
        self, sources: Sources, spec: ReleaseSpec | None, settings: Settings
    ) -> AbstractContextManager[SparkEngine]:
        """See `EngineKind.open`; settings of the engine duckdb don't apply to executors."""
        from dprelease.exact.spark.spark_engine import SparkEngine

        return SparkEngine.open(
            sources.declared, sources.frame, sources.joined, sources.joined_frame, _settings(spec)
        )

    def keep_alive(self, spec: ReleaseSpec) -> AbstractContextManager[None]:
        """Keep one application alive, which takes many seconds to start; see `EngineKind`."""
        from dprelease.exact.spark.sessions.spark_session import keep_application

        return keep_application(_settings(spec))

    def left_open(self, spec: ReleaseSpec) -> list[str]:
        """See `EngineKind.left_open`."""
        from dprelease.exact.spark.sessions.exposure import left_open

        return left_open(spec.spark.master, spec.spark.config)


def _settings(spec: ReleaseSpec | None) -> SparkSettings:
    from dprelease.exact.spark.sessions.spark_session import Settings

    if spec is None:
        return Settings()
    return Settings(spec.spark.master, spec.spark.staging, spec.spark.config)


ENGINE = ClusterKind()

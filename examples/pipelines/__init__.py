"""Releases as steps of pipelines: the functions that dbt, Airflow and Dagster call.

The functions import none of these packages, so that they can be called and tested alone.
"""

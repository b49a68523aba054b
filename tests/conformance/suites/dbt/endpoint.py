"""Runs in dbt's own environment, as a plugin of pytest: where dbt-spark's tests find the endpoint, as a user writes it."""

import os

from tests.functional.fixtures import profiles


def _target():
    """TLS is the near end's of a tunnel."""
    return {
        "type": "spark",
        "method": "thrift",
        "host": "127.0.0.1",
        "port": int(os.environ["ENDPOINT_PORT"]),
        "auth": "LDAP",
        "user": "ann",
        "password": os.environ["DBT_ENV_SECRET_TOKEN"],
        "threads": 1,
    }


profiles.apache_spark_target = _target

"""Which options of databases SQL may give, decided by the session image's own class."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.default_class import image_connectors
from tests.support.java_classes import class_path

ALLOWED_KEY = "spark.sparksql.jdbc.allowed"
PG = "jdbc:postgresql://db:5432/shop"
# Options of PostgreSQL's driver that name a class, a file, a service, a login or a source address.
DANGEROUS = frozenset(
    {
        "authenticationPluginClassName", "classLoaderStrategy", "connectExecutor", "connectExecutorArg", "gsslib", "gssUseDefaultCreds",
        "jaasApplicationName", "jaasLogin", "kerberosServerName", "localSocketAddress", "loggerFile", "loggerLevel", "service",
        "socketFactory", "socketFactoryArg", "sslcert", "sslfactory", "sslfactoryarg", "sslhostnameverifier", "sslkey",
        "sslpasswordcallback", "sslrootcert", "sspiServiceClass", "useSpnego", "xmlFactoryFactory",
    }
)  # fmt: skip
OF_SPARK_REFUSED = frozenset({"connectionprovider", "keytab", "principal", "refreshkrb5config"})


@dataclass(frozen=True)
class Case:
    """Options of a source, the class's settings, and a part of the refusal; None where the options are allowed."""

    options: Mapping[str, str]
    refusal: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


def allowing(*names: str) -> dict[str, str]:
    return {ALLOWED_KEY: ",".join(names)}


CATALOG = {
    "spark.sql.catalog.shop": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
    "spark.sql.catalog.shop.url": "jdbc:oracle:thin:@db:1521/shop",
    "spark.sql.catalog.shop.driver": "oracle.jdbc.OracleDriver",
    "spark.sql.catalog.shop.oracle.net.wallet_location": "/etc/wallet",
    "spark.sql.catalog.pg.sslRootCert": "/etc/ca.pem",
}
ORACLE = {"url": "jdbc:oracle:thin:@db:1521/shop", "driver": "oracle.jdbc.OracleDriver", "dbtable": "t"}
CASES = [
    Case({"url": PG, "dbtable": "t", "user": "u", "password": "p", "driver": "org.postgresql.Driver", "fetchSize": "10"}),
    Case({"url": f"{PG}?sslmode=require&ApplicationName=a%20b&&user=u", "query": "SELECT 1", "path": "x", "serialization.format": "1"}),
    Case({"url": "jdbc:postgresql:shop"}),
    Case({"url": f"{PG}?sslkey=/etc/key"}, "'sslkey' in option 'url'"),
    Case({"url": f"{PG}?ssl=true&SSLKEY=/etc/key"}, "'SSLKEY' in option 'url'"),
    Case({"url": f"{PG}?ssl%6bey=/etc/key"}, "'ssl%6bey'"),
    Case({"url": f"{PG}?a?sslkey=/etc/key"}, "'a?sslkey'"),
    Case({"url": f"{PG}?\r&service=x"}, "in option 'url'"),
    Case({"url": PG, "SslKey": "/etc/key"}, "jdbc.postgresql.sslkey in allow.conf"),
    Case({"url": PG, " sslkey": "/etc/key"}, "' sslkey'"),
    Case({"url": PG, "URL": "jdbc:hive2://h/;initFile=/etc/passwd"}, "jdbc.hive2"),
    Case({"URL": "jdbc:hive2://h/", "dbtable": "t"}, "jdbc.hive2"),
    Case({"url": " " + PG}, "'url'"),
    Case({"url": "postgresql://h/d"}, "'url'"),
    Case({"url": PG, "driver": " org.postgresql.Driver"}, "'driver'"),
    Case({"url": PG, "driver": "org.postgresql.Driver2"}, "'driver'"),
    Case({"url": "jdbc:derby:memory:x;create=true"}, "jdbc.derby"),
    Case({"url": "jdbc:mysql://h/d"}, "jdbc.mysql in allow.conf"),
    Case({"url": "jdbc:mysql://h/d?allowLoadLocalInfile=true", "driver": "com.mysql.cj.jdbc.Driver", "x": "y"}, None, allowing("jdbc.mysql")),
    Case({"url": "jdbc:mysql://h/d"}, "jdbc.mysql", allowing("jdbc.mysql.user", "jdbc", "jdbc.postgresql")),
    Case({"url": f"{PG}?sslrootcert=/etc/ca", "sslRootCert": "/etc/ca"}, None, allowing("JDBC.PostgreSQL.SslRootCert")),
    Case({"url": f"{PG}?sslrootcert=/etc/ca&sslkey=/etc/key"}, "'sslkey'", allowing("jdbc.postgresql.sslrootcert")),
    Case({**ORACLE, "oracle.net.wallet_location": "/etc/wallet"}, None, CATALOG),
    Case({**ORACLE, "oracle.net.wallet_location": "/etc/other"}, "'oracle.net.wallet_location'", CATALOG),
    Case({**ORACLE, "url": "jdbc:oracle:thin:@evil:1521/shop"}, "jdbc.oracle", CATALOG),
    Case({"url": PG, "sslrootcert": "/etc/ca.pem"}, None, CATALOG),
    Case({"url": PG, "sslrootcert": "/etc/other.pem"}, "'sslrootcert'", CATALOG),
    *(Case({"url": PG, name: "x"}, f"'{name}'") for name in sorted(DANGEROUS | OF_SPARK_REFUSED)),
]  # fmt: skip


@pytest.fixture(scope="module")
def verdicts() -> list[str]:
    return answers([(case.options, case.settings) for case in CASES])


def answers(asked: list[tuple[Mapping[str, str], Mapping[str, str]]]) -> list[str]:
    lines = [
        "\t".join([*(f"o:{k}={v}" for k, v in options.items()), *(f"s:{k}={v}" for k, v in settings.items())])
        for options, settings in asked
    ]
    return java("DatabaseOptions", "\n".join(line.replace("\r", "?") for line in lines))


def java(program: str, given: str = "") -> list[str]:
    found = shutil.which("java")
    assert found is not None
    source = Path(__file__).parent / "java" / f"{program}.java"
    command = [found, "-cp", class_path(image_connectors()), str(source)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("number", range(len(CASES)))
def test_options_of_a_database_are_allowed_or_refused_by_name(verdicts: list[str], number: int) -> None:
    case, verdict = CASES[number], verdicts[number]
    if case.refusal is None:
        assert verdict == "allowed"
    else:
        assert case.refusal in verdict, verdict
        assert "/etc/" not in verdict


def test_each_option_of_the_driver_and_of_spark_is_decided() -> None:
    """One that a new version brings is refused until it is read: here it is seen."""
    names = java("DatabaseOptionNames")
    of_driver = {name.removeprefix("driver ") for name in names if name.startswith("driver ")}
    of_spark = {name.removeprefix("spark ") for name in names if name.startswith("spark ")} - {"url", "driver"}
    assert len(of_driver) > 60 and len(of_spark) > 25
    refused = {
        name
        for name, verdict in zip(
            sorted(of_driver | of_spark),
            answers([({"url": PG, name: "x"}, {}) for name in sorted(of_driver | of_spark)]),
            strict=True,
        )
        if verdict != "allowed"
    }
    assert refused == (DANGEROUS & of_driver) | (OF_SPARK_REFUSED & of_spark)
    assert of_driver >= DANGEROUS and of_spark >= OF_SPARK_REFUSED

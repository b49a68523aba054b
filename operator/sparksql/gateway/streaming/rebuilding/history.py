"""What the sources of a query still have of what it has read by a batch, told before anything is read again.

Spark itself would tell of some losses only, and in the middle: it takes no notice of a file that no longer exists, and with
`failOnDataLoss` false of no record of Kafka.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.scala import simple_name
from sparksql.gateway.spark.shapes import Jvm, LogicalPlan
from sparksql.gateway.streaming.continuity.places import NOTHING, places_in, sources_of
from sparksql.gateway.streaming.continuity.snapshots import MOVED
from sparksql.gateway.streaming.kafka.options import is_kafka
from sparksql.gateway.streaming.state import rebuilding
from sparksql.gateway.streaming.state.rebuilding import NotRebuildable, Offsets, Rebuilding, Snapshot, SourceHistory
from sparksql.gateway.streaming.state.source_identity import read_as

_FILES = frozenset({"parquet", "orc", "csv", "json", "text", "avro", "xml"})
_ICEBERG = "org.apache.iceberg.spark.source.SparkTable"
_SNAPSHOT = "snapshot_id"  # of an offset of Iceberg
_CLEANUP = "cleanup.policy"  # of a topic
_KAFKA_SECONDS = 30

log = logging.getLogger(__name__)


def read_again(
    jvm: Jvm, files: HadoopFiles, analysed: LogicalPlan, checkpoint: str, offsets: str
) -> Rebuilding | NotRebuildable:
    """Returns what is read again for the state of an analysed query, up to the offsets of a batch of its checkpoint."""
    places, sources = places_in(offsets), sources_of(jvm, analysed)
    if len(places) != len(sources):
        return NotRebuildable("Spark reads other sources than the checkpoint has places of")
    found: list[SourceHistory] = []
    for number, (source, place) in enumerate(zip(sources, places, strict=True)):
        history = _history(jvm, files, source.leaf, source.name, f"{checkpoint}/sources/{number}", place)
        if isinstance(history, NotRebuildable):
            return history
        found.append(history)
    return Rebuilding(tuple(found))


def _history(
    jvm: Jvm, files: HadoopFiles, leaf: LogicalPlan, name: str, folder: str, place: str
) -> SourceHistory | NotRebuildable:
    if place == NOTHING:
        return SourceHistory(name, "nothing")
    kind = read_as(leaf)
    if simple_name(leaf) == "StreamingRelationV2" and is_kafka(leaf.sourceName()):
        return _of_kafka(jvm, files, leaf, name, folder, json.loads(place))
    if kind in _FILES:
        return _of_files(files, name, folder, int(json.loads(place)["logOffset"]))
    if kind == "delta":  # it begins with the table as it was, of which Delta tells if it cannot be had
        return SourceHistory(name, f"the Delta table up to version {json.loads(place)['reservoirVersion']}")
    if kind == _ICEBERG:
        return _of_iceberg(files, leaf.table().table(), name, folder, json.loads(place))
    return NotRebuildable(
        f"of source {name} ({kind}) it is not known whether its history is whole: that is known of topics of Kafka, tables of "
        "files, of Delta and of Iceberg"
    )


def _of_kafka(
    jvm: Jvm, files: HadoopFiles, leaf: LogicalPlan, name: str, folder: str, read: Offsets
) -> SourceHistory | NotRebuildable:
    begun = files.read_text(f"{folder}/0")  # a byte for Spark 2.1, a line with a version, then offsets
    if begun is None:
        return NotRebuildable(f"the checkpoint does not record where source {name} began")
    # As Spark asks: with the source's options and credentials.
    stream: Any = leaf.table().newScanBuilder(leaf.extraOptions()).build().toMicroBatchStream(folder)
    try:
        reader = stream.kafkaOffsetReader()
        found = jvm.org.apache.spark.sql.kafka010.KafkaSourceOffset(reader.fetchEarliestOffsets())
        earliest: Offsets = json.loads(found.json())
        compacted = _compacted(jvm, reader.driverKafkaParams(), read)
    finally:
        stream.stop()
    return rebuilding.kafka_history(name, json.loads(begun.partition("\n")[2]), read, earliest, compacted)


def _compacted(jvm: Jvm, params: Any, topics: Iterable[str]) -> frozenset[str] | None:
    """The topics of which Kafka may keep the last record of a key alone; None where it does not say."""
    kafka = jvm.org.apache.kafka
    topic = kafka.common.config.ConfigResource.Type.TOPIC
    resources = {name: kafka.common.config.ConfigResource(topic, name) for name in topics}
    asked = jvm.java.util.ArrayList()
    for resource in resources.values():
        asked.add(resource)
    admin = kafka.clients.admin.Admin.create(params)
    try:
        configs = admin.describeConfigs(asked).all().get(_KAFKA_SECONDS, jvm.java.util.concurrent.TimeUnit.SECONDS)
        policies = {name: str(configs.get(each).get(_CLEANUP).value()) for name, each in resources.items()}
    except Exception as refused:  # who may read a topic need not be allowed to read its settings
        log.info("the settings of topics could not be read: %s", type(refused).__name__)
        return None
    finally:
        admin.close()
    return frozenset(name for name, policy in policies.items() if "compact" in policy)


def _of_iceberg(
    files: HadoopFiles, table: Any, name: str, folder: str, place: Mapping[str, Any]
) -> SourceHistory | NotRebuildable:
    """Looks at the snapshots from the one that was read last back to the one that the query began with."""
    text = files.read_text(f"{folder}/offsets/0")
    if text is None:
        return NotRebuildable(f"the checkpoint does not record where source {name} began")
    began = json.loads(text)
    if MOVED in began:
        return NotRebuildable(f"the snapshots that source {name} began with have expired")
    table.refresh()

    def parent_of(number: int) -> Snapshot | None:
        snapshot = table.snapshot(number)
        if snapshot is None:
            return None
        parent = snapshot.parentId()
        return Snapshot(None if parent is None else int(parent))

    return rebuilding.iceberg_history(name, int(began[_SNAPSHOT]), int(place[_SNAPSHOT]), parent_of)


def _of_files(files: HadoopFiles, name: str, folder: str, last: int) -> SourceHistory | NotRebuildable:
    uris = {uri.rpartition("/")[2]: uri for uri in files.children(folder)}
    names = [each for each in uris if each.removesuffix(".compact").isdecimal()]
    logs = {each: text for each in names if (text := files.read_text(uris[each])) is not None}
    paths = [unquote(path) for path in rebuilding.files_read(logs, last)]
    there: set[str] = set()
    for parent in {path.rpartition("/")[0] for path in paths}:
        there.update(f"{parent}/{uri.rpartition('/')[2]}" for uri in files.children(parent))
    return rebuilding.files_history(name, paths, there)

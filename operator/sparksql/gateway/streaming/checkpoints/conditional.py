"""In an object store a checkpoint's files are made by conditional requests: of two drivers that write one batch's plan, one can.

Spark renames, which is atomic in HDFS and on a disk; s3a looks for the name and copies, so that both may pass, and a batch's
number then stands for two ranges of the source, which no look at the target finds.
"""

from __future__ import annotations

from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.shapes import JvmSession

MANAGER_KEY = "spark.sql.streaming.checkpointFileManagerClass"
MANAGER = "dev.sparksql.streaming.ConditionalCheckpointFileManager"  # of the session image


def create_conditionally(session: JvmSession, checkpoint: str, files: HadoopFiles) -> None:
    """Has a query that is started in a session do so, where the checkpoint's file system can and the class says nothing else."""
    if session.conf().getOption(MANAGER_KEY).isEmpty() and files.creates_conditionally(checkpoint):
        session.conf().set(MANAGER_KEY, MANAGER)

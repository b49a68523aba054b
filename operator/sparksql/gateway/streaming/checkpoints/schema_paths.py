"""Where an operator's metadata finds the schemas of its state: Spark writes full paths, which a copy must not lead back to.

`state/OPERATOR/_metadata/v2/BATCH` has a line `v2` and JSON, in which each store names its files below
`CHECKPOINT/state/OPERATOR/_stateSchema` (OperatorStateMetadataV2 of Spark 4.1). The first version has no paths. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Container

_METADATA, _STATE = "_metadata", "/state/"
_STORES, _PATHS = "stateStoreInfo", "stateSchemaFilePaths"


def has_paths(path: str) -> bool:
    """Returns whether a file of a checkpoint is an operator's metadata."""
    match path.split("/"):
        case ["state", _, folder, _, _]:
            return folder == _METADATA
        case _:
            return False


def relocated(text: str, checkpoint: str, there: Container[str]) -> str:
    """Returns an operator's metadata with the paths of another checkpoint, that has the files `there` by their paths below it.

    A schema that is not there keeps its path. Raises ValueError for what is no metadata.
    """
    version, _, body = text.partition("\n")
    metadata = json.loads(body)
    stores = [store for store in metadata[_STORES] if _PATHS in store]
    for store in stores:
        store[_PATHS] = [_moved(path, checkpoint, there) for path in store[_PATHS]]
    return f"{version}\n{json.dumps(metadata)}" if stores else text


def _moved(path: str, checkpoint: str, there: Container[str]) -> str:
    below = path[path.rindex(_STATE) + 1 :] if _STATE in path else ""
    return f"{checkpoint}/{below}" if below in there else path

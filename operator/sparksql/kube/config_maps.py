"""Texts in ConfigMaps."""

from __future__ import annotations

from sparksql.api.fields import ConfigMapKeySelector
from sparksql.kube.client import KubeClient
from sparksql.kube.errors import NotFound
from sparksql.kube.resources import CONFIG_MAPS


async def config_map_text(client: KubeClient, namespace: str, ref: ConfigMapKeySelector) -> str | None:
    """Returns the text of a ConfigMap's key, None when the ConfigMap or the key does not exist."""
    try:
        config_map = await client.get(CONFIG_MAPS, namespace, ref.name)
    except NotFound:
        return None
    value: str | None = (config_map.get("data") or {}).get(ref.key)
    return value

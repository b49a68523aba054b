"""Hook of MkDocs: writes links to files outside `docs` as paths, since the site has no such pages.

In the repository these links lead to the files. With `repo_url` in mkdocs.yml they lead to the files there.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any

_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<path>(?:\.\./)+[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Returns the page's text with its links to files of the repository replaced. Called by MkDocs for each page."""
    folder = PurePosixPath("docs") / PurePosixPath(page.file.src_uri).parent
    repository = str(config.get("repo_url") or "").rstrip("/")
    return _LINK.sub(lambda link: _written(link, folder, repository), markdown)


def _written(link: re.Match[str], folder: PurePosixPath, repository: str) -> str:
    path = normpath(str(folder / link["path"]))
    if path == "docs" or path.startswith("docs/"):
        return link[0]
    if repository:
        return f"[{link['text']}]({repository}/blob/main/{path}{link['anchor'] or ''})"
    text = link["text"].strip("`")
    return f"`{path}`" if text == path or not text else f"{link['text']} (`{path}`)"

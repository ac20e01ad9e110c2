"""The encoders that can be named, without loading any of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from muvr_train.errors import ConfigError, shorten
from muvr_train.names import nearest_names

LIBRARIES = ("timm", "open_clip")
_WIDTH = re.compile(r"(\d[\d,]*)-d\b")


@dataclass(frozen=True)
class EncoderRow:
    """An encoder: how it is chosen, its network and weights, the width of its features, whether it encodes texts."""

    name: str
    architecture: str
    pretrained: str
    dim: str
    text: str
    notes: str

    @classmethod
    def heads(cls) -> tuple[str, ...]:
        """The names of the columns."""
        return ("name", "architecture", "pretrained", "dim", "text", "notes")

    def cells(self) -> tuple[str, ...]:
        """The columns."""
        return (self.name, self.architecture, self.pretrained, self.dim, self.text, self.notes)


def list_encoders(pattern: str, folder: Path) -> list[EncoderRow]:
    """List the encoders whose name or architecture matches.

    Args:
        pattern: a wildcard ("*clip*"), case ignored; "timm/..." and "open_clip/..." search the names of those libraries
            instead (this imports them, which takes seconds).
        folder: the folder with the encoders' YAML files.

    Returns:
        Rows sorted by name.

    Raises:
        ConfigError: nothing matches; the message has near names.
    """
    library = pattern.partition("/")[0]
    rows = _library_rows(library) if library in LIBRARIES else _config_rows(folder)
    found = [row for row in rows if _matches(pattern, row.name) or _matches(pattern, row.architecture)]
    if not found:
        names = [row.name for row in rows]
        near = nearest_names(pattern.strip("*"), names, 5, least=0.5)
        raise ConfigError(
            f"list={pattern}: no encoder matches; "
            + (f"near: {', '.join(near)}" if near else f"there are {shorten(names, 20)}")
            + ("" if library in LIBRARIES else "; 'timm/*' and 'open_clip/*' search all names of those libraries")
        )
    return found


def _matches(pattern: str, name: str) -> bool:
    return fnmatchcase(name.lower(), pattern.lower())


def _config_rows(folder: Path) -> list[EncoderRow]:
    return [_config_row(folder, path.stem) for path in sorted(folder.glob("*.yaml"))]


def _config_row(folder: Path, name: str) -> EncoderRow:
    cfg = _composed(folder, name)
    lines = (folder / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    comment = [line.lstrip("# ").strip() for line in lines[: _first_setting(lines)]]
    notes = " ".join(comment)
    width = cfg.get("dim") or next(iter(_WIDTH.findall(notes)), "")
    text = "yes" if str(cfg.get("_target_", "")).endswith("OpenClipEncoder") else "no"
    weights = cfg.get("pretrained", "")
    pretrained = {True: "downloaded", False: "random", None: "random", "": "package"}.get(weights, str(weights))
    architecture = str(cfg.get("architecture", "tf_efficientnet_lite0"))
    any_network = architecture == "???"
    return EncoderRow(
        name, "any" if any_network else architecture, pretrained, str(width).replace(",", ""), text, notes
    )


def _first_setting(lines: Sequence[str]) -> int:
    return next((row for row, line in enumerate(lines) if not line.startswith("#")), len(lines))


def _composed(folder: Path, name: str) -> Mapping[str, Any]:
    """Read a YAML file on top of those that its defaults name."""
    from omegaconf import OmegaConf

    own: Any = OmegaConf.load(folder / f"{name}.yaml")
    parents = [entry for entry in own.pop("defaults", []) if entry != "_self_"]
    merged: Any = OmegaConf.merge(*(OmegaConf.create(dict(_composed(folder, parent))) for parent in parents), own)
    content: Mapping[str, Any] = {
        str(key): "???" if OmegaConf.is_missing(merged, key) else merged[key] for key in merged
    }
    return content


def _library_rows(library: str) -> list[EncoderRow]:
    if library == "timm":
        import timm

        return [
            EncoderRow(f"timm/{name}", name, name.partition(".")[2], "", "no", "encoder=timm")
            for name in sorted({*timm.list_models(), *timm.list_pretrained()})
        ]
    import open_clip

    return [
        EncoderRow(
            f"open_clip/{name}",
            name,
            ", ".join(open_clip.pretrained.list_pretrained_tags_by_model(name)) or "none",
            str((open_clip.get_model_config(name) or {}).get("embed_dim", "")),
            "yes",
            "encoder.architecture of any open_clip encoder",
        )
        for name in open_clip.list_models()
    ]

"""Finds the files of a local model, and what makes two copies of it the same."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from muvr_train.errors import ConfigError, DataError, shorten
from muvr_train.rerank.digests import digest_of

SMALL = (".json", ".jinja", ".model", ".txt", ".tiktoken", ".py")
"""Configuration, tokenizer, chat template and a model's own code."""
WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
"""By preference."""


def model_folder(model: str, revision: str | None = None) -> Path:
    """Give the folder of a model; one of the hub is downloaded, or taken from the cache without network.

    Raises:
        ConfigError: a folder with a revision.
        DataError: there is no such folder and the hub gives none, or configuration or weights are missing.
    """
    folder = Path(model).expanduser()
    if not folder.is_dir():
        if folder.is_file() or folder.is_absolute() or model.startswith(("./", "../")) or model.count("/") > 1:
            kind = "is a file; give its folder" if folder.is_file() else "no such folder"
            raise DataError(f"answerer.model={model}: {kind}")
        folder = _from_hub(model, revision)
    elif revision is not None:
        raise ConfigError(f"answerer.revision={revision} is of models of the hub; {model} is a folder: leave it out")
    _check_files(folder, model)
    return folder


def _from_hub(model: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download

    patterns = [f"*{suffix}" for suffix in SMALL] + [WEIGHTS[0]]
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=patterns))
    except (OSError, ValueError) as error:  # HTTP errors, no network, a name that cannot be one of the hub
        wanted = model if revision is None else f"{model} (revision {revision})"
        raise DataError(
            f"answerer.model={wanted}: neither a folder here nor a model that the hub gives "
            f"({first_line(error)}); give the folder of a downloaded model, or check name, revision and network"
        ) from error


def _check_files(folder: Path, model: str) -> None:
    """Refuse a folder without configuration or with missing weights."""
    if (folder / "adapter_config.json").is_file():
        raise DataError(f"answerer.model={model}: an adapter; merge it into its base model and give that folder")
    if not (folder / "config.json").is_file():
        raise DataError(f"answerer.model={model}: {folder} has no config.json; is it the folder of a model?")
    files = weight_files(folder)
    if not files:
        raise DataError(
            f"answerer.model={model}: {folder} has no weights ({' or '.join(WEIGHTS)}); was it downloaded completely?"
        )
    missing = sorted(_indexed(folder) - {path.name for path in files})
    if missing:
        raise DataError(f"answerer.model={model}: {folder} lacks weights that its index names: {shorten(missing)}")
    for path in files:
        with path.open("rb") as file:
            if file.read(24).startswith(b"version https://git-lfs"):
                raise DataError(f"answerer.model={model}: {path} is a pointer of Git LFS; say `git lfs pull` there")


def _indexed(folder: Path) -> set[str]:
    """Names of the weight files that the index of the preferred kind lists."""
    path = next(iter(sorted(folder.glob("*.safetensors.index.json")) + sorted(folder.glob("*.bin.index.json"))), None)
    if path is None:
        return set()
    try:
        return set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise DataError(f"{path}: is not an index of weights ({first_line(error)})") from error


def weight_files(folder: Path) -> list[Path]:
    """Files of weights, safetensors where there are any, by name."""
    kinds = (sorted(path for path in folder.glob(pattern) if path.is_file()) for pattern in WEIGHTS)
    return next((files for files in kinds if files), [])


def fingerprint(folder: Path) -> str:
    """Hash whatever determines the answers of a model, wherever its folder lies: 24 hex digits.

    Configuration, tokenizer, templates, code and weights, all of their bytes: a fine-tuned projector may be all that
    tells two models apart. The digests of weights are kept (`rerank.digests`), so that only the first start reads them.
    """
    digest = hashlib.sha256()
    small = sorted(p for p in folder.iterdir() if p.suffix in SMALL and p.is_file() and not p.name.startswith("."))
    for path in [*small, *weight_files(folder)]:
        digest.update(f"{path.name}\0{digest_of(path)}\0".encode())
    return digest.hexdigest()[:24]


def first_line(error: BaseException) -> str:
    """First line of an error's message, without the full stop, or its kind where it has none."""
    return next(iter(str(error).strip().splitlines()), "").rstrip(". ") or type(error).__name__

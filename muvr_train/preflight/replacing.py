"""What a results folder holds already, and whether a new evaluation may replace it."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError, shorten
from muvr_train.preflight.exported import weights_file
from muvr_train.preflight.questions import QUESTIONS, asks_questions
from muvr_train.preflight.resume import leaves
from muvr_train.preflight.runs import grammar_text

SUBJECTS = ("model", "fusion", "scores")
ASKED = ("benchmark", "data", "answerer")
HOW_TO_ASK = ("base_url", "api_key_env", "concurrency", "retries", "back_off", "timeout", "device_map", "attention")
"""Settings of an answerer that change no answer."""
NO_MATTER = ("benchmark.report", "benchmark.report_items", "benchmark.report_queries")
"""Settings that change no result."""
PATHS = ("benchmark.questions", "benchmark.categories", "data.videos", "data.images", "data.masks", "answerer.path")


def refuse_replacing(cfg: DictConfig) -> None:
    """Refuse a results folder that holds a training run, an evaluation of something else, or reranking that is lost.

    Some of its files would be replaced and others would stay, such as saved scores and the report. Of two evaluations
    that ask questions all are replaced and the answers stay, which is only warned of.

    Raises:
        ConfigError: naming both; not with `overwrite=true`.
    """
    if cfg.overwrite:
        return
    try:
        found = json.loads((Path(cfg.out) / "results.json").read_text(encoding="utf-8"))
        meta, reranked = found["meta"], [row["name"] for row in found.get("reranked", ())]
        before, config = meta.get("checkpoint_sha256"), meta["config"]
        trained, benchmark = config.get("run"), (config.get("benchmark") or {}).get("name")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
    choices = cfg.hydra.runtime.choices
    new = cfg.ckpt_path or cfg.get("scores") or choices.get("model") or choices.get("answerer")
    old = f"the training run {trained}" if trained else meta.get("checkpoint") or meta.get("model")
    if asks_questions(cfg) and benchmark in QUESTIONS:
        _warn_of_replacing(cfg, config, str(old), str(new))
        return
    if cfg.ckpt_path is not None:
        same = before == hashlib.sha256(weights_file(Path(cfg.ckpt_path)).read_bytes()).hexdigest()
    else:
        same = before is None and _subject(config) == _subject(_plain(cfg, ("benchmark", *SUBJECTS)))
    if not same or trained:
        raise ConfigError(
            f"out={cfg.out} holds results of {old}, and those of {new} would replace them: choose another out=, or add "
            "overwrite=true"
        )
    if reranked and not cfg.get("rerank"):
        raise ConfigError(
            f"out={cfg.out} holds reranked results ({reranked[0]}), which would be dropped, as you leave out rerank=: "
            "choose another out=, or add overwrite=true (the answers stay in answers.jsonl)"
        )


def _subject(config: Mapping[str, Any]) -> list[Any]:
    """What a run evaluates: model and scores, or that it asks questions."""
    asked = (config.get("benchmark") or {}).get("name")
    return [*(config.get(key) for key in SUBJECTS), asked if asked in QUESTIONS else None]


def _warn_of_replacing(cfg: DictConfig, config: Mapping[str, Any], old: str, new: str) -> None:
    """Say what a run that asks questions replaces: the results of another answerer, or those of other settings."""
    before, now = _asked(config), _asked(_plain(cfg, ASKED))
    changed = [key for key in dict.fromkeys((*before, *now)) if _value(key, before) != _value(key, now)]
    if not changed:
        return
    if not {"benchmark.name", "answerer._target_"} & set(changed):
        old, new = (
            f"{old} with {shorten([f'{key}={_shown(values.get(key))}' for key in changed], 5)}"
            for values in (before, now)
        )
    sys.stderr.write(
        f"warning: out={cfg.out} holds results of {old}: those of {new} replace them; choose another out= to keep them "
        "(answers stay in the file of answers)\n"
    )


def _plain(cfg: DictConfig, groups: tuple[str, ...]) -> dict[str, Any]:
    plain: Any = OmegaConf.to_container(OmegaConf.masked_copy(cfg, [key for key in groups if key in cfg]), resolve=True)
    return dict(plain)


def _asked(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that determine the results of a run that asks questions."""
    kept = {group: config.get(group) or {} for group in ASKED}
    unlike = (*NO_MATTER, *(f"answerer.{name}" for name in HOW_TO_ASK))
    return {key: value for key, value in leaves(kept) if key not in unlike}


def _value(key: str, values: Mapping[str, Any]) -> Any:
    value = values.get(key)
    return str(Path(value).resolve()) if key in PATHS and isinstance(value, str) else value


def _shown(value: Any) -> str:
    try:
        return grammar_text(value)
    except (TypeError, ValueError):
        return str(value)

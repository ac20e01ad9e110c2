"""Settings of answerers, refused by their own classes before anything is loaded."""

from __future__ import annotations

import importlib
import inspect
import os
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError

OPENAI = "muvr_train.rerank.answerers.openai_server."
FILE = "muvr_train.rerank.answerers.from_file."
REFERENCES = "muvr_train.rerank.answerers.references."
LIGHT = (OPENAI, "muvr_train.rerank.answerers.hf.")
"""Where the classes are that check what they are given, and load nothing until they are asked to."""
SAYS = {**dict.fromkeys(("AlwaysYes", "AlwaysNo", "Retriever"), "yes or no"), "FixedLetter": "a letter"}
"""References that answer one kind of question only."""


HOW = {
    f"{REFERENCES}Retriever.scores": "answerer.scores=FILE, the scores of a retriever: python evaluate.py "
    "ckpt_path=... (or model=frame_max) save_scores=true out=DIR writes DIR/scores_<mode>.npz",
    f"{FILE}FileAnswers.path": "answerer.path=FILE, a line of JSON for each answer: answers.jsonl of a run, or "
    "answers of your own to the questions.jsonl that every run writes (answerer=coin does without any model)",
    f"{OPENAI}OpenAIServer.model": "answerer.model=NAME, what the server calls the model (it lists them under "
    "<base_url>/models)",
    f"{LIGHT[1]}Transformers.model": "answerer.model=FOLDER, or its name on the Hugging Face hub, such as "
    "answerer.model=Qwen/Qwen2.5-VL-7B-Instruct",
}
"""What settings that must be given are, and where they come from."""


def how_to_give(cfg: DictConfig, key: str) -> str:
    """Say what to add where a setting must be given."""
    return HOW.get(f"{target_of(cfg)}.{key.removeprefix('answerer.')}", f"{key}=...")


def target_of(cfg: DictConfig) -> str:
    """Module and class of the answerer, "" where there is none."""
    return str(OmegaConf.select(cfg, "answerer._target_", default="", throw_on_missing=False) or "")


def check_answerer(cfg: DictConfig) -> None:
    """Build the answerer that a config names, if that costs nothing.

    Settings that the class does not know are left to the one who builds it in earnest.

    Raises:
        ConfigError: it refuses its settings, has no server and no key, or a file of answers is not there.
    """
    target = target_of(cfg)
    if not target.startswith((*LIGHT, FILE)) or OmegaConf.missing_keys(cfg.answerer):
        return
    if target.startswith(FILE):
        _check_file(str(cfg.answerer.get("path")))
        return
    module, _, name = target.rpartition(".")
    answerer = getattr(importlib.import_module(module), name)
    node: Any = OmegaConf.to_container(cfg.answerer, resolve=True)
    settings = {key: value for key, value in node.items() if key not in ("_target_", "_convert_")}
    if set(settings) <= set(inspect.signature(answerer).parameters):
        made = answerer(**settings)
        if target.startswith(OPENAI):
            _check_key(made.base_url, made.api_key_env)


def check_fit(cfg: DictConfig, asks: str, by: str) -> None:
    """Refuse a reference that cannot answer what is asked.

    Args:
        cfg: the composed config.
        asks: "yes or no", or "a letter".
        by: the setting that asks.

    Raises:
        ConfigError: with those that can.
    """
    target = target_of(cfg)
    name = target.rpartition(".")[2]
    if target.startswith(REFERENCES) and SAYS.get(name, asks) != asks:
        ours = "always_yes, always_no, coin, oracle, retriever" if asks == "yes or no" else "fixed_letter, coin, oracle"
        raise ConfigError(f"{by} asks for {asks}, and {name} says {SAYS[name]}: take another answerer ({ours})")


def _check_file(path: str) -> None:
    if not Path(path).is_file():
        what = "is a folder" if Path(path).is_dir() else "there is no such file"
        raise ConfigError(f"answerer.path={path}: {what}; give a file of answers, such as answers.jsonl of a run")


def _check_key(base_url: str | None, variable: str) -> None:
    if not (base_url or os.environ.get("OPENAI_BASE_URL") or os.environ.get(variable)):
        raise ConfigError(
            f"answerer=openai asks OpenAI's own server, and the environment variable {variable} holds no key: set it, "
            "or give answerer.base_url=URL, the address of a server of your own"
        )

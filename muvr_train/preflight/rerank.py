"""Settings of reranking, checked before anything is loaded."""

from __future__ import annotations

from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError
from muvr_train.preflight.questions import LOOKING, NO_LOGPROBS
from muvr_train.preflight.rules import TEXT, Rule, one_of, optional, several, whole

METHODS = ("keep_drop", "probability")
RERANK_RULES: dict[str, Rule] = {
    "rerank.method": one_of(*METHODS),
    "rerank.top_k": whole(1),
    "rerank.mode": optional(TEXT),
    "rerank.comparison": one_of("images", "text"),
    "rerank.query_frames": whole(1),
    "rerank.frames": whole(1),
    "rerank.resolution": optional(whole(1)),
    "rerank.decision": one_of("text", "logprob"),
    "rerank.languages": several(TEXT, example="[en,de]"),
    "rerank.masks": optional(TEXT),
}
SHARING = ("fivr_5k", "fivr_200k", "cc_web_video")
"""Benchmarks of several tasks that ask the same queries, each with another idea of a match."""


def check_rerank(cfg: DictConfig) -> None:
    """Check what goes together with reranking.

    Raises:
        ConfigError: there is no answerer, nothing that it could look at, or a mode that is not evaluated.
    """
    rerank = cfg.get("rerank")
    if not rerank:
        return
    target = str(OmegaConf.select(cfg, "answerer._target_", default=None, throw_on_missing=False) or "")
    name = f"rerank={rerank.method}"
    if not target:
        raise ConfigError(f"{name} asks a model about the first videos of every query: add answerer=NAME")
    if cfg.benchmark.name in SHARING:
        raise ConfigError(
            f"{name}: the tasks of benchmark={cfg.benchmark.name} ask the same queries, each with another idea of a "
            "match, which no question can tell apart; rerank other benchmarks"
        )
    from muvr_train.rerank.yes_no import check_languages  # of no use to other runs

    check_languages(list(rerank.languages))
    modes = cfg.benchmark.modes
    if cfg.benchmark.name != "muvr_filter" and rerank.mode and modes is not None and rerank.mode not in modes:
        raise ConfigError(
            f"rerank.mode={rerank.mode} is not evaluated: benchmark.modes={OmegaConf.to_container(modes)}"
        )
    if rerank.decision == "logprob" and target.startswith(NO_LOGPROBS):
        raise ConfigError(
            f"rerank.decision=logprob: {target.rpartition('.')[2]} has no log-probabilities; add rerank.decision=text"
        )
    if target.startswith(LOOKING):
        check_videos(cfg)


def check_videos(cfg: DictConfig) -> None:
    """Check that there are videos to show to an answerer that looks at them.

    Raises:
        ConfigError: no folder is named, or what is searched are no files.
    """
    name = f"rerank={cfg.rerank.method}"
    if cfg.data.kind == "folder":
        raise ConfigError(f"{name}: the edited copies of data=folder are no files that could be shown to a model")
    if cfg.data.kind != "demo" and cfg.data.videos is None:
        raise ConfigError(f"{name} shows videos to the answerer: add data.videos=DIR, the folder of their files")

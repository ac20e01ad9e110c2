"""Settings of reranking, checked before anything is loaded."""

from __future__ import annotations

from omegaconf import DictConfig

from muvr_train.errors import ConfigError
from muvr_train.preflight.answerers import check_fit, target_of
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


def check_rerank(cfg: DictConfig) -> None:
    """Check what goes together with reranking.

    Raises:
        ConfigError: there is no answerer or it says no yes or no, nothing that it could look at, queries without a
            description that shall be compared by it, or a mode that is not evaluated.
    """
    rerank = cfg.get("rerank")
    if not rerank:
        return
    target = target_of(cfg)
    name = f"rerank={rerank.method}"
    if not target:
        raise ConfigError(f"{name} asks a model about the first videos of every query: add answerer=NAME")
    check_fit(cfg, "yes or no", name)
    from muvr_train.rerank.yes_no import check_languages  # of no use to other runs

    check_languages(list(rerank.languages), "rerank.languages")
    _check_mode(cfg)
    if rerank.decision == "logprob" and target.startswith(NO_LOGPROBS):
        raise ConfigError(
            f"rerank.decision=logprob: {target.rpartition('.')[2]} has no log-probabilities; add rerank.decision=text"
        )
    if target.startswith(LOOKING):
        check_videos(cfg)


def _check_mode(cfg: DictConfig) -> None:
    from muvr_train.preflight.values import modes_of  # which holds the rules from above

    benchmark, mode = cfg.benchmark, cfg.rerank.mode
    if cfg.rerank.comparison == "text" and not {"t", "tv"} & set(modes_of(benchmark.name)):
        raise ConfigError(
            f"rerank.comparison=text: the queries of benchmark={benchmark.name} have no description; leave it out"
        )
    if mode is None or cfg.get("scores"):
        return
    if benchmark.name == "muvr_filter":
        from muvr_train.search.filter import mode_suffix

        asked = benchmark.tag_mode
        modes = [f"tag_{mode_suffix(asked if isinstance(asked, (int, float)) else asked[0])}"]
        given = f"of benchmark=muvr_filter the row of the first benchmark.tag_mode is reranked, {modes[0]}"
    else:
        modes = list(benchmark.modes or modes_of(benchmark.name))
        given = f"benchmark.modes={modes}" if benchmark.modes else f"benchmark={benchmark.name} has {', '.join(modes)}"
    if mode not in modes:
        raise ConfigError(f"rerank.mode={mode} is not evaluated: {given}")


def check_videos(cfg: DictConfig) -> None:
    """Check that there are videos to show to an answerer that looks at them.

    Raises:
        ConfigError: no folder is named, or nothing says how edited copies are made.
    """
    name = f"rerank={cfg.rerank.method}"
    if cfg.data.kind == "folder" and cfg.get("scores") and cfg.data.features is None:
        raise ConfigError(
            f"{name} shows edited copies to the answerer, which are made as the store of features says: add "
            "data.features=STORE"
        )
    if cfg.data.kind != "demo" and cfg.data.videos is None:
        raise ConfigError(f"{name} shows videos to the answerer: add data.videos=DIR, the folder of their files")

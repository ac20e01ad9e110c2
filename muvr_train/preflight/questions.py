"""Questions to a multimodal model on the command line: MUVR-QA and IV-Bench, checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError
from muvr_train.preflight.annotated import brought
from muvr_train.preflight.answerers import LIGHT, REFERENCES, check_fit, target_of
from muvr_train.preflight.own_files import is_written
from muvr_train.preflight.rules import FLAG, TEXT, Rule, one_of, one_or_several, optional, several, whole

QUESTIONS = ("muvr_qa", "iv_bench")
"""The benchmarks that ask an answerer."""
DATA = "questions"
QUESTION_RULES: dict[str, Rule] = {
    "answers": optional(TEXT),
    "data.images": optional(TEXT),
    "data.masks": optional(TEXT),
    "benchmark.questions": optional(TEXT),
    "benchmark.categories": optional(TEXT),
    "benchmark.comparison": one_of("images", "text"),
    "benchmark.frames": one_or_several(whole(1), "[8,32]"),
    "benchmark.query_frames": whole(1),
    "benchmark.resolution": optional(one_or_several(whole(1), "[224,448]")),
    "benchmark.tags": FLAG,
    "benchmark.decision": one_of("text", "logprob"),
    "benchmark.languages": several(TEXT, example="[en,de]"),
    "benchmark.missing": one_of("error", "wrong"),
    "benchmark.limit": optional(whole(1)),
    "benchmark.image_position": one_of("after", "before"),
    "benchmark.image": one_of("given", "none"),
    "benchmark.video": FLAG,
    "benchmark.reasoning": FLAG,
    "benchmark.duplicates": one_of("drop", "keep"),
    "benchmark.report_items": whole(0),
}
ALONE = {
    "ckpt_path": "a checkpoint is evaluated on other benchmarks; as a rival of the models give its scores: "
    "answerer=retriever answerer.scores=FILE",
    "model": "an untrained model is evaluated on other benchmarks",
    "scores": "score files are evaluated on other benchmarks; answerer=retriever answerer.scores=FILE answers by them",
    "calibration": "it belongs to scores",
    "save_scores": "there are no scores",
    "fuse": "there are no scores",
    "rerank": "it reorders the videos of other benchmarks",
    "fusion": "no retriever is evaluated",
    "encoder": "no features are extracted",
    "memory_budget": "no retriever is evaluated",
    "residency": "no features are read",
    "scoring_precision": "no retriever is evaluated",
    "expected_encoder": "no features are read",
    "calibration_background": "it belongs to scores",
    "trainer": "where a model of transformers runs is answerer.device_map",
    "seed": "the order of IV-Bench's options is benchmark.seed, a coin's tosses are answerer.seed",
    "on_missing": "what is missing is settled by benchmark.missing=error|wrong",
    "benchmark.report_queries": "the number of cards is benchmark.report_items",
}
"""What says nothing about questions, and why."""
NO_LOGPROBS = REFERENCES
LOOKING = LIGHT
"""Where the answerers are that look at videos and images."""


def with_questions(typed: list[str], training: bool) -> list[str]:
    """Add the data that these benchmarks bring along.

    Args:
        typed: settings.
        training: whether they are of train.py.

    Raises:
        ConfigError: training, or other data was typed.
    """
    return brought(typed, QUESTIONS, DATA, _no_training if training else None, _other_data)


def asks_questions(cfg: DictConfig) -> bool:
    """Whether a config is about questions to an answerer."""
    return OmegaConf.select(cfg, "benchmark.name", throw_on_missing=False) in QUESTIONS


def check_questions(cfg: DictConfig) -> None:
    """Check a composed config that asks questions.

    Raises:
        ConfigError: no answerer, other data, training, or settings that contradict each other.
    """
    name, benchmark, data = cfg.benchmark.name, cfg.benchmark, cfg.data
    if "loss" in cfg:
        raise _no_training(name)
    if data.kind != DATA:
        raise _other_data(name, data.kind)
    if cfg.get("answerer") is None:
        raise ConfigError(
            f"benchmark={name} asks a model: add answerer=openai answerer.model=NAME answerer.base_url=URL, "
            "answerer=transformers answerer.model=FOLDER, answerer=file answerer.path=FILE, or a reference such as "
            "answerer=coin"
        )
    target = target_of(cfg)
    check_fit(cfg, "yes or no" if name == "muvr_qa" else "a letter", f"benchmark={name}")
    if benchmark.decision == "logprob" and target.startswith(NO_LOGPROBS):
        raise ConfigError(
            f"benchmark.decision=logprob: {target.rpartition('.')[2]} has no log-probabilities; leave it out"
        )
    _refuse_own_file(cfg)
    if benchmark.questions is None:
        for key in ("videos", "images", "masks"):
            if data[key] is not None:
                raise ConfigError(
                    f"data.{key}={data[key]} needs benchmark.questions=FILE; without it the questions are about the "
                    "built-in corpus"
                )
    if name == "muvr_qa":
        _check_muvr_qa(benchmark, data)
    else:
        _check_iv_bench(benchmark, data)
    if target.startswith(LOOKING) and benchmark.questions is not None and benchmark.missing == "error":
        _check_files(cfg, name)


def check_unasked(cfg: DictConfig) -> None:
    """Refuse an answerer that nothing asks, and data of questions without them.

    Raises:
        ConfigError: saying what would ask it.
    """
    if OmegaConf.select(cfg, "data.kind", throw_on_missing=False) == DATA:
        raise ConfigError(f"data={DATA} is of benchmark={', '.join(QUESTIONS)}, which bring it along: leave data= out")
    if "answerer" not in cfg:
        return
    _refuse_own_file(cfg)
    if cfg.get("rerank"):
        return
    if given := [key for key in ("answerer", "answers", "allow_failures") if cfg.get(key)]:
        raise ConfigError(
            f"{given[0]}= is of runs that ask questions: add benchmark=muvr_qa, benchmark=iv_bench or "
            f"rerank=keep_drop, or leave {given[0]}= out"
        )


def check_alone(cfg: DictConfig, keys: Collection[str]) -> None:
    """Refuse settings that were typed and say nothing about questions.

    Raises:
        ConfigError: naming the key.
    """
    for key in sorted(keys):
        for one, why in ALONE.items():
            if key == one or key.startswith(f"{one}."):
                raise ConfigError(f"{key}= cannot go with benchmark={cfg.benchmark.name}: {why}. Leave it out")


def _refuse_own_file(cfg: DictConfig) -> None:
    answers = answers_path(cfg)
    given = OmegaConf.select(cfg, "answerer.path", throw_on_missing=False)
    if given is not None and answers is not None and Path(str(given)).resolve() == answers.resolve():
        raise ConfigError(
            f"answerer.path={given} is the file that this run writes its own answers into: give another out= (or "
            "answers=)"
        )
    for key, value in (("answers", cfg.get("answers")), ("answerer.path", given)):
        if value is not None and cfg.get("out") is not None and is_written(Path(str(value)), Path(str(cfg.out))):
            raise ConfigError(
                f"{key}={value} is a file that this run writes something else into (out={cfg.out}): give another {key}="
            )


def answers_path(cfg: DictConfig) -> Path | None:
    """The file of answers of a run; None where its folder has no name yet."""
    if cfg.get("answers") is not None:
        return Path(cfg.answers)
    return None if cfg.get("out") is None else Path(cfg.out) / "answers.jsonl"


def _check_muvr_qa(benchmark: DictConfig, data: DictConfig) -> None:
    from muvr_train.rerank.yes_no import check_languages  # of no use to other runs

    check_languages(list(benchmark.languages), "benchmark.languages")
    if data.images is not None:
        raise ConfigError(f"data.images={data.images}: benchmark=muvr_qa has no images, leave it out")


def _check_iv_bench(benchmark: DictConfig, data: DictConfig) -> None:
    if data.masks is not None:
        raise ConfigError(f"data.masks={data.masks}: benchmark=iv_bench has no marked regions, leave it out")
    if not benchmark.video and benchmark.image == "given":
        raise ConfigError("benchmark.video=false is the text alone: add benchmark.image=none")
    if benchmark.reasoning and benchmark.decision == "logprob":
        raise ConfigError(
            "benchmark.reasoning=true and benchmark.decision=logprob do not go together: the first token of an answer "
            "that reasons is no letter"
        )


def _check_files(cfg: DictConfig, name: str) -> None:
    needed = {"videos": "DIR, the folder of the video files"} if name == "muvr_qa" or cfg.benchmark.video else {}
    if name == "iv_bench" and cfg.benchmark.image == "given":
        needed["images"] = "DIR, the folder of the image files that the questions name"
    for key, text in needed.items():
        if cfg.data[key] is None:
            raise ConfigError(
                f"benchmark={name} shows {key} to the answerer: add data.{key}={text} (with benchmark.missing=wrong "
                "questions whose files are missing count as failed)"
            )


def _no_training(name: str) -> ConfigError:
    return ConfigError(
        f"benchmark={name} asks a model and trains none: python evaluate.py benchmark={name} answerer=NAME"
    )


def _other_data(name: str, data: str) -> ConfigError:
    return ConfigError(
        f"data={data} and benchmark={name} do not go together: leave data= out (the questions are "
        "benchmark.questions=..., the videos data.videos=DIR)"
    )

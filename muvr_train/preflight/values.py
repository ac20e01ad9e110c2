"""What values the settings may have, key by key; the checks of how they go together are in `config_checks`."""

from __future__ import annotations

from muvr_train.memory import is_bytes
from muvr_train.preflight.annotated import ANNOTATED
from muvr_train.preflight.parts import PART_RULES
from muvr_train.preflight.questions import QUESTION_RULES
from muvr_train.preflight.regimes import REGIME_RULES
from muvr_train.preflight.rerank import RERANK_RULES
from muvr_train.preflight.rules import FLAG, SHARE, TEXT, Rule, number, one_of, one_or_several, optional, several, whole
from muvr_train.preflight.scores import FUSIONS

PARTITIONS = ("news", "others", "instance", "region", "dance", "mean")
ALL_MODES = ("v", "t", "tv", "tv+tag", "tv+region")
MODES = {
    "muvr_base": ALL_MODES,
    "muvr_filter": ("v", "t", "tv"),
    "copies": ("v",),
    "table": ("v", "t", "tv", "tv+region"),
}
MODES |= dict.fromkeys(ANNOTATED, ("v",))


def modes_of(name: str) -> tuple[str, ...]:
    """Modes that a benchmark can be asked for; of one with a reader of the user's own, those of MUVR."""
    return MODES.get(name, MODES["muvr_base"])


RULES: dict[str, Rule] = {
    "run": optional(TEXT),
    "out": optional(TEXT),
    "seed": one_or_several(
        Rule(lambda v: whole(0).allows(v) and v < 2**32, "a whole number from 0 to 2^32 - 1"), "[0,1]"
    ),
    "resume_from": optional(TEXT),
    "ckpt_path": optional(TEXT),
    "teacher": optional(TEXT),
    "scores": optional(one_or_several(TEXT)),
    "fuse": optional(one_or_several(one_of(*FUSIONS))),
    "save_scores": FLAG,
    "overwrite": FLAG,
    "calibration_background": optional(TEXT),
    "on_missing": one_of("error", "official"),
    "residency": one_of("mmap", "ram", "gpu"),
    "memory_budget": optional(Rule(is_bytes, "a number of bytes, such as 500MB or 2GB")),
    "scoring_precision": Rule(lambda v: v in (32, "32", "bf16", "fp16"), "32 | bf16 | fp16", ("32", "bf16", "fp16")),
    "expected_encoder": optional(TEXT),
    "data.kind": one_of("demo", "muvr", "folder", "table", "annotated", "custom", "questions"),
    "data.annotations": optional(TEXT),
    "data.features": optional(TEXT),
    "data.videos": optional(TEXT),
    "data.size": one_of("tiny", "default", "large"),
    **REGIME_RULES,
    **PART_RULES,
    **RERANK_RULES,
    **QUESTION_RULES,
    "data.workers": optional(whole(0)),
    "data.prefetch": whole(0),
    "data.fractions": several(SHARE, length=3),
    "data.batch.topics": whole(2),
    "data.batch.queries_per_topic": whole(1),
    "data.batch.positives": whole(1),
    "data.batch.hard_negatives": whole(0),
    "data.batch.one_partition": FLAG,
    "data.views": whole(0),
    "data.shared_intros": SHARE,
    "data.augment.max_frames": optional(whole(1)),
    "benchmark.name": TEXT,
    "benchmark.annotations": optional(TEXT),
    "benchmark.modes": optional(several(one_of(*ALL_MODES))),
    "benchmark.split": optional(one_of("all", "train", "val", "test")),
    "benchmark.folds": optional(whole(3)),
    "benchmark.fold": optional(whole(0)),
    "benchmark.split_source": optional(one_of("topic", "annotation")),
    "benchmark.gallery": one_of("split", "full"),
    "benchmark.ties": one_of("average", "optimistic", "pessimistic"),
    "benchmark.bootstrap": Rule(
        lambda v: whole(100).allows(v) or (v == 0 and whole(0).allows(v)), "0 (none) or a whole number >= 100"
    ),
    "benchmark.noise": optional(number(0, 0.5, open_least=True)),
    "benchmark.ks": several(whole(1), example="[1,10]"),
    "benchmark.tag_mode": one_or_several(number(0)),
    "benchmark.logic": FLAG,
    "benchmark.upper_bound": FLAG,
    "benchmark.seed": whole(0),
    "benchmark.report": FLAG,
    "benchmark.report_queries": whole(0),
    "benchmark.intros": FLAG,
    "benchmark.database_size": optional(whole(1)),
    "optimizer.lr": number(0, open_least=True),
    "optimizer.weight_decay": number(0),
    "optimizer.betas": several(Rule(lambda v: number(0).allows(v) and v < 1, "a number >= 0 and < 1"), length=2),
    "optimizer.warmup_steps": whole(0),
    "optimizer.min_lr_ratio": SHARE,
    "trainer.accelerator": one_of("auto", "cpu", "gpu"),
    "trainer.devices": Rule(lambda v: v == "auto" or whole(1).allows(v), "a whole number >= 1, or auto", ("auto",)),
    "trainer.num_nodes": whole(1),
    "trainer.timeout": number(0, open_least=True),
    "trainer.precision": Rule(
        lambda v: v in (32, "32", "bf16-mixed", "16-mixed"),
        "32 | bf16-mixed | 16-mixed",
        ("32", "bf16-mixed", "16-mixed"),
    ),
    "trainer.max_epochs": whole(0),
    "trainer.steps_per_epoch": whole(1),
    "trainer.accumulate": whole(1),
    "trainer.ema": optional(Rule(lambda v: number(0, 1, open_least=True).allows(v) and v < 1, "a number > 0 and < 1")),
    "trainer.gradient_clip": optional(number(0, open_least=True)),
    "trainer.every_n_epochs": whole(1),
    "trainer.checkpoint_every_n_steps": whole(1),
    "trainer.early_stop_patience": optional(whole(1)),
    "logger.kind": one_of("csv", "wandb"),
    "logger.project": TEXT,
    "encoder.batch_size": whole(1),
    "encoder.precision": Rule(lambda v: v in (32, "32", "bf16", "fp16"), "32 | bf16 | fp16", ("32", "bf16", "fp16")),
    "encoder.compile": FLAG,
    "encoder.text_windows": one_of("cut", "mean"),
    "sampling": optional(one_of("uniform", "fps", "all", "muvr_official")),
    "frames": optional(whole(1)),
    "fps": optional(number(0, open_least=True)),
    "views": whole(0),
    "view_strength": SHARE,
    "placeholders": optional(one_of("drop", "name", "keep")),
    "dtype": one_of("float16", "bfloat16", "float32"),
    "devices": whole(1),
    "num_nodes": whole(1),
    "workers": optional(whole(1)),
    "timeout": number(0, open_least=True),
    "allow_failures": FLAG,
    "save_every": number(0),
    "shard_mib": number(0, open_least=True),
    "callbacks.log_every_n_steps": whole(1),
    "callbacks.progress_bar": FLAG,
}

OWN_MODEL_RULES = {
    "model.base": one_of("frame_max", "frame_max_frames", "chamfer", "chamfer_max", "chamfer_frames"),
    "model.over": one_of("regions", "frames"),
    "model.region_pooling": one_of("chamfer", "max"),
    "model.mask_pooling": one_of("all", "any"),
    "model.whiten": Rule(lambda v: isinstance(v, bool) or whole(1).allows(v), "true | false | a number of components"),
    "model.binarization": optional(whole(1)),
    "model.pair_chunk": optional(whole(1)),
    "model.checkpointing": optional(FLAG),
    "model.compile": FLAG,
    "model.weights": optional(TEXT),
    "model.learned_scale": FLAG,
    "model.size": optional(whole(1)),
    "model.temporal_layers": whole(0),
    **{
        f"model.{name}": whole(1)
        for name in ("temporal_width", "temporal_heads", "layers", "width", "heads", "clusters")
    },
    **{
        f"model.{name}": FLAG
        for name in ("residual", "base_weights", "attention", "attention_norm", "symmetric", "batch_norm")
    },
}
"""For the networks of this package; a user's own network may give these names another meaning."""

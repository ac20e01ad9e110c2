"""`resume_from` before anything is loaded: what may change, what is refused, and runs that came from a sweep."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra.utils import instantiate
from omegaconf import OmegaConf

from muvr_train import cli
from muvr_train.errors import ConfigError, DataError
from muvr_train.losses.base import Loss
from muvr_train.preflight.compose import Composer
from muvr_train.preflight.resume import NUMBERS, changes, plain_settings, read_settings, trained_steps
from muvr_train.preflight.runs import saved_overrides
from tests.cli.test_prepare import composed, in_an_empty_folder, options, save_run  # noqa: F401

LENGTH = ["trainer.max_epochs=2", "trainer.steps_per_epoch=3"]


def begun(name: str, *argv: str, checkpoint: bool = True) -> Path:
    """A run's folder as it is once training has begun."""
    folder = save_run(name, [*LENGTH, *argv])
    cfg = Composer(cli.config_dir(), "train").compose(saved_overrides(folder / ".hydra" / "overrides.yaml"))
    (folder / "config.yaml").write_text(yaml.safe_dump(plain_settings(cfg), sort_keys=False))
    if not checkpoint:
        (folder / "last.ckpt").unlink()
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


OTHER_WEIGHTS: list[tuple[list[str], str]] = [
    (
        ["fusion=gated"],
        r"^fusion=gated: checkpoints/a was begun with fusion\._target_=\S+MeanFusion, and .*GatedFusion",
    ),
    (["model=mean_pool"], r"^model=mean_pool: .*model\._target_=\S+S2VS.*MeanPool"),
    (
        ["model.whiten=false"],
        r"^model\.whiten=false: .*begun with model\.whiten=true, and model\.whiten would be false",
    ),
    (["model.base=frame_max"], r"model\.base=chamfer_max, and model\.base would be frame_max"),
    (["experiment=fusion_gated"], r"^experiment=fusion_gated: .*fusion\._target_"),
    (["+model.extra=1"], r"^\+model\.extra=1: .*model\.extra=nothing, and model\.extra would be 1"),
    (["loss=sigmoid"], r"^loss=sigmoid: .*loss\.losses\.sigmoid\._target_=nothing, and .* would be \S+SigmoidLoss"),
    (["trainer.ema=0.9"], r"^trainer\.ema=0\.9: .*trainer\.ema=null, and trainer\.ema would be 0\.9"),
    (["loss=distillation", f"teacher={__file__}"], r"^teacher=\S+: .*begun with teacher=null"),
    (["seed=[0,1]"], r"checkpoints/a is one run, and the settings ask for a run of several seeds \(seed=\[0, 1\]"),
    (["benchmark.folds=3"], r"is one run, and .* of several folds .*benchmark\.folds=3"),
]


def test_what_makes_other_weights_is_refused_and_nothing_is_rewritten() -> None:
    folder = begun("a", "experiment=fusion_mean")
    before = contents(folder)
    for new, message in OTHER_WEIGHTS:
        with pytest.raises(ConfigError, match=message) as caught:
            cli.prepare(["resume_from=checkpoints/a", *new], "train")
        assert re.search("new run=NAME|run=NAME without resume_from", str(caught.value))
        assert contents(folder) == before
    composed(["resume_from=checkpoints/a"])


def test_a_loss_with_numbers_of_its_own_stays() -> None:
    begun("a", "loss=sigmoid", "trainer.ema=0.9")
    for new in (
        "loss.losses.sigmoid.scale=5",
        "loss.losses.sigmoid=null",
        "loss=infonce",
        "loss.losses.sigmoid.bias=-5",
    ):
        with pytest.raises(ConfigError, match=r"loss\.losses\.sigmoid\."):
            cli.prepare(["resume_from=a", new], "train")
    composed(
        [
            "resume_from=a",
            "loss.losses.sigmoid.learned=false",
            "loss.losses.sigmoid.unit_range=true",
            "loss.weights.sigmoid=2",
        ]
    )


FREE = [
    "optimizer.lr=0.5",
    "optimizer.lr_ratios.text_part=0",
    "optimizer.lr_ratios.residual_scale=1.5",
    "+optimizer.lr_ratios.head=0.5",
    "optimizer.weight_decay=0",
    "optimizer.betas=[0.8,0.9]",
    "trainer.max_epochs=9",
    "trainer.gradient_clip=null",
    "loss=infonce",
    "loss.losses.infonce.temperature=0.5",
    "data.batch.topics=7",
    "model.pair_chunk=5",
    "model.checkpointing=true",
    "seed=5",
    "memory_budget=1GB",
    "benchmark.ks=[1]",
]


def test_other_settings_are_free() -> None:
    begun("a", "experiment=fusion_mean")
    cfg = composed(["resume_from=checkpoints/a", *FREE])
    for new in FREE:
        key, _, value = new.lstrip("+").partition("=")
        assert key == "loss" or OmegaConf.select(cfg, key) == yaml.safe_load(value), new


def test_a_run_without_a_checkpoint_begins_anew_with_anything() -> None:
    begun("a", checkpoint=False)
    assert composed(["resume_from=checkpoints/a", "fusion=gated"]).fusion._target_.endswith("GatedFusion")


def test_a_checkpoint_that_is_named_counts_too() -> None:
    folder = begun("a", checkpoint=False)
    (folder / "best.ckpt").touch()
    with pytest.raises(ConfigError, match="fusion=gated: checkpoints/a was begun"):
        cli.prepare(["resume_from=checkpoints/a/best.ckpt", "fusion=gated"], "train")


def test_settings_that_only_a_newer_version_has_are_no_change_and_other_defaults_are() -> None:
    folder = begun("a")
    settings = yaml.safe_load((folder / "config.yaml").read_text())
    del settings["model"]["base_weights"]
    (folder / "config.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
    composed(["resume_from=checkpoints/a"])
    with pytest.raises(ConfigError, match=r"model\.base_weights=nothing"):
        cli.prepare(["resume_from=checkpoints/a", "model.base_weights=true"], "train")
    settings["model"]["base"] = "frame_max"
    (folder / "config.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
    with pytest.raises(ConfigError, match=r"^model\.base=chamfer_max: .*Give model\.base=frame_max to go on"):
        cli.prepare(["resume_from=checkpoints/a"], "train")
    composed(["resume_from=checkpoints/a", "model.base=frame_max"])


@pytest.mark.parametrize("text", ["a: [", "\x00", "a: b: c"])
def test_damaged_settings_are_named(text: str) -> None:
    (begun("a") / "config.yaml").write_text(text)
    with pytest.raises(DataError, match=r"checkpoints/a/config\.yaml is damaged"):
        cli.prepare(["resume_from=checkpoints/a"], "train")


def test_no_loss_has_numbers_but_those_that_are_listed() -> None:
    """The check before torch is imported knows them by name."""
    for option in options("loss"):
        cfg = Composer(cli.config_dir(), "train").compose([f"loss={option}"])
        for node in cfg.loss.losses.values():
            loss = instantiate(node)
            assert isinstance(loss, Loss)
            assert (next(loss.parameters(), None) is not None) == (node._target_ in NUMBERS), node._target_
            assert not dict(loss.named_buffers()), "a buffer is saved as well"


SWEEP = "run='mean ü_${hydra:job.num}'"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["seed=7"], {"seed": 7}),
        (["seed='${hydra:job.num}'"], {"seed": 3}),
        (
            ["optimizer.lr=1e-3", "data.features='my \\${stores}'"],
            {"optimizer": {"lr": 1e-3}, "data": {"features": "my ${stores}"}},
        ),
    ],
)
def test_a_run_of_a_sweep_goes_on_in_its_folder(more: list[str], expected: dict[str, Any]) -> None:
    folder = begun("mean ü_3", "experiment=fusion_mean", *(text for text in more if "hydra" not in text))
    settings = {**yaml.safe_load((folder / "config.yaml").read_text()), "seed": expected.get("seed", 0)}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))
    OmegaConf.save(
        OmegaConf.create(["experiment=fusion_mean", *LENGTH, *more, SWEEP]), folder / ".hydra" / "overrides.yaml"
    )
    cfg = composed(["resume_from=checkpoints/mean ü_3", "trainer.max_epochs=4"])
    assert (cfg.run, cfg.hydra.run.dir, cfg.trainer.max_epochs) == ("mean ü_3", "checkpoints/mean ü_3", 4)
    for key, value in expected.items():
        got = cfg[key]
        assert {name: got[name] for name in value} == value if isinstance(value, dict) else got == value


def several(*argv: str, kind: str = "seed", done: dict[int, int | None], names: str = "seed{}") -> Path:
    """A run of seeds or folds, each with the steps of its record (None: cut short)."""
    folder = begun("many", *argv, checkpoint=False)
    for number, steps in done.items():
        own = folder / names.format(number)
        own.mkdir()
        settings = yaml.safe_load((folder / "config.yaml").read_text())
        if kind == "seed":
            settings["seed"] = number
        else:
            settings["benchmark"]["fold"] = number
        settings.update(run=f"many/{own.name}", resume_from=None)
        (own / "config.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
        (own / "last.ckpt").touch()
        if steps is not None:
            (own / f"{kind}.json").write_text(json.dumps({"seed": number, "steps": steps}))
    return folder


def test_seeds_of_other_settings_are_not_averaged() -> None:
    folder = several("seed=[0,1]", done={0: 6, 1: 6})
    before = contents(folder)
    composed(["resume_from=many", "seed=[0,1,2]"])
    for new in (["seed=[0,1,2]", "optimizer.lr=0.05", "loss=infonce"], ["optimizer.lr=0.05", "loss=infonce"]):
        with pytest.raises(ConfigError, match=r"checkpoints/many/seed0 was made with other settings") as caught:
            cli.prepare(["resume_from=many", *new], "train")
        for named in ("loss.losses.", "optimizer.lr (0.001, now 0.05)", "run=NAME"):
            assert named in str(caught.value)
    with pytest.raises(ConfigError, match=r"seed0 .*benchmark\.ks \(\[1, 5.*now \[1\]\)"):
        cli.prepare(["resume_from=many", "benchmark.ks=[1]"], "train")
    with pytest.raises(ConfigError, match=r"^loss=sigmoid: "):
        cli.prepare(["resume_from=many", "loss=sigmoid"], "train")
    with pytest.raises(ConfigError, match=r"is a run of several seeds, one of which goes on alone with .*/seed0"):
        cli.prepare(["resume_from=many", "seed=1"], "train")
    assert contents(folder) == before


RUN_TIME = [
    "trainer=ddp_cpu",
    "data.workers=0",
    "memory_budget=1GB",
    "logger.kind=wandb",
    "callbacks.progress_bar=false",
]


def test_what_decides_no_result_is_free_between_seeds() -> None:
    several("seed=[0,1]", done={0: 6})
    composed(["resume_from=many", *RUN_TIME])


def test_a_path_may_be_written_otherwise() -> None:
    Path("stores").mkdir()
    several("seed=[0,1]", "data.features=stores", done={0: 6})
    composed(["resume_from=many", f"data.features={Path('stores').resolve()}"])
    with pytest.raises(ConfigError, match=r"data\.features \(stores, now other\)"):
        composed(["resume_from=many", "data.features=other"])


def test_all_seeds_are_trained_longer_with_other_settings_but_not_beside_new_ones() -> None:
    several("seed=[0,1]", done={0: 6, 1: 6})
    composed(["resume_from=many", "trainer.max_epochs=4", "optimizer.lr=0.05"])
    composed(["resume_from=many", "trainer.max_epochs=4", "seed=[0,1,2]"])
    with pytest.raises(
        ConfigError, match=r"seed0 was begun with other settings.*: optimizer\.lr \(0\.001, now 0\.05\)\."
    ):
        cli.prepare(["resume_from=many", "trainer.max_epochs=4", "optimizer.lr=0.05", "seed=[0,1,2]"], "train")


def test_a_seed_that_was_cut_short_goes_on_as_it_began_where_others_are_to_come() -> None:
    several("seed=[0,1]", done={0: None})
    composed(["resume_from=many"])
    with pytest.raises(ConfigError, match="seed0 was begun with other settings"):
        cli.prepare(["resume_from=many", "optimizer.lr=0.05"], "train")


def test_folds_too() -> None:
    several("benchmark.folds=3", kind="fold", names="fold-{}", done={0: 6, 1: 6})
    composed(["resume_from=many"])
    composed(["resume_from=many", "trainer.max_epochs=4"])
    with pytest.raises(ConfigError, match=r"many/fold-0 was made with other settings.*optimizer\.lr"):
        cli.prepare(["resume_from=many", "optimizer.lr=0.05"], "train")
    with pytest.raises(ConfigError, match=r"fold-0 was made with other settings.*benchmark\.folds \(3, now 4\)"):
        cli.prepare(["resume_from=many", "benchmark.folds=4"], "train")


@pytest.mark.parametrize(
    ("text", "steps"), [('{"steps": 6}', 6), ('{"scores": []}', None), ("{", DataError), ("[]", DataError)]
)
def test_how_long_a_seed_was_trained(tmp_path: Path, text: str, steps: int | type[Exception] | None) -> None:
    assert trained_steps(tmp_path / "seed.json") is None
    (tmp_path / "seed.json").write_text(text)
    if steps is DataError:
        with pytest.raises(DataError, match=r"seed\.json is damaged .* delete it"):
            trained_steps(tmp_path / "seed.json")
    else:
        assert trained_steps(tmp_path / "seed.json") == steps


def test_saved_settings_are_read_as_they_were(tmp_path: Path) -> None:
    values = {
        "a": "${hydra:job.num}",
        "b": "1e-3",
        "c": 1e-6,
        "d": "2020-01-01",
        "e": None,
        "f": {},
        "g": "é",
        "h": [1, "x"],
    }
    cfg = OmegaConf.create({**values, "a": "\\${hydra:job.num}"})
    assert plain_settings(cfg) == values
    (tmp_path / "config.yaml").write_text(OmegaConf.to_yaml(cfg, resolve=True), encoding="utf-8")
    saved = read_settings(tmp_path)
    assert saved == values
    assert changes(saved, {**values, "c": 1.0e-6, "b": 1e-3}) == [("b", "1e-3", 1e-3)]


def test_no_torch_is_needed() -> None:
    code = "import sys, muvr_train.preflight.resume; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=cli.config_dir().parent, check=False).returncode == 0

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from muvr_train import cli
from muvr_train.errors import ConfigError
from muvr_train.models.baselines import BASELINES
from muvr_train.preflight.annotated import ANNOTATED
from muvr_train.preflight.compose import Composer
from muvr_train.preflight.questions import QUESTIONS
from muvr_train.preflight.unread import TRAINING

GROUPS = ("data", "model", "fusion", "loss", "benchmark", "encoder", "optimizer", "trainer", "logger", "callbacks")


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


def options(group: str) -> list[str]:
    return sorted(p.stem for p in (cli.config_dir() / group).glob("*.yaml") if not p.stem.startswith("_"))


@pytest.mark.parametrize("name", [*BASELINES, "sweep/frame_max"])
def test_a_run_cannot_be_called_as_an_untrained_row_beside_it(name: str) -> None:
    Path("checkpoints", name).mkdir(parents=True)
    Path("checkpoints", name, "best.ckpt").touch()
    for argv, program in (([f"run={name}"], "train"), ([f"ckpt_path=checkpoints/{name}/best.ckpt"], "evaluate")):
        with pytest.raises(ConfigError, match=f"{name}.*untrained"):
            composed(argv, program)


def composed(argv: list[str], name: str = "train", extra: Path | None = None) -> DictConfig:
    """The config that Hydra makes of prepared arguments."""
    texts = [text for text in cli.prepare(argv, name) if "=" in text]
    return Composer(cli.config_dir(), name, extra).compose(texts)


WITH_EXPERIMENT = {"s2vs_self_supervised": ["data.videos=clips"], "dns_distilled": [f"teacher={__file__}"]}
"""What an experiment needs beside it."""


@pytest.mark.parametrize("experiment", options("experiment"))
@pytest.mark.parametrize("debug", [None, *options("debug")])
def test_every_experiment_composes(experiment: str, debug: str | None) -> None:
    argv = [f"experiment={experiment}", *([f"debug={debug}"] if debug else [])]
    argv += WITH_EXPERIMENT.get(experiment, [])
    cfg = composed(argv)
    assert cfg.hydra.runtime.choices.experiment == experiment
    assert set(GROUPS) <= set(cfg)
    assert cfg.run.startswith(f"{experiment}-")
    if debug == "smoke" and cfg.trainer.max_epochs:
        assert cfg.data.get("size", "tiny") == "tiny"
        assert cfg.trainer.max_epochs * cfg.trainer.steps_per_epoch <= 10


MUVR = ["data.annotations=a", "data.features=f"]
WITH = {
    "timm": ["encoder.architecture=resnet18"],
    "muvr": MUVR,
    "table": MUVR,
    "folder": ["data.videos=v"],
    "copies": ["data=folder", "data.videos=v"],
    "muvr_filter": ["data=muvr", *MUVR],
    "custom": [*MUVR, "+benchmark.reader._target_=json.load", "benchmark.name=own"],
    "distillation": [f"teacher={__file__}"],
    **{name: ["benchmark.annotations=a", "data.features=f"] for name in ANNOTATED},
}
"""What an option needs beside it."""


@pytest.mark.parametrize(("group", "option"), [(g, o) for g in GROUPS for o in options(g)])
def test_every_option_composes(group: str, option: str) -> None:
    argv, name = [f"{group}={option}", *WITH.get(option, [])], "train"
    if (group, option) == ("benchmark", "table"):
        argv.append("data=table")
    if option in (*ANNOTATED, "annotated", "muvr_filter"):
        argv, name = [*argv, "model=frame_max"], "evaluate"
    if option in (*QUESTIONS, "questions"):
        argv, name = (
            [f"benchmark={option}" if option in QUESTIONS else "benchmark=iv_bench", "answerer=coin"],
            "evaluate",
        )
    if option == "annotated":
        argv += ["benchmark=evve", *WITH["evve"]]
    assert composed(argv, name).hydra.runtime.choices[group] == option


def test_the_experiments_say_what_the_papers_do() -> None:
    cfg = composed(["experiment=s2vs_clip_rn50x4"])
    assert cfg.optimizer.lr == 5e-5
    assert cfg.optimizer.weight_decay == 0.01
    assert cfg.optimizer.warmup_steps == 1000
    assert cfg.trainer.max_epochs * cfg.trainer.steps_per_epoch == 30_000
    assert list(cfg.benchmark.modes) == ["v"]
    assert not cfg.model.residual
    assert composed(["experiment=s2vs_evaclip"]).logger.kind == "wandb"
    assert composed(["experiment=zero_shot"]).trainer.max_epochs == 0


def test_a_kind_of_data_brings_its_encoder_and_another_can_be_chosen() -> None:
    folder = ["data=folder", "data.videos=x", "benchmark=copies"]
    assert composed(["data=demo"]).encoder.name == "demo"
    assert composed(folder).encoder.name == "efficientnet_lite0"
    assert composed([*folder, "encoder=demo"]).encoder.name == "demo"


@pytest.mark.parametrize("name", ["my = clips", "[a], (b)", 'it\'s "x"', "视频 ü", "a,b", "{c}", "$d ${", "tail\\"])
def test_path_keys_take_any_name(name: str) -> None:
    cfg = composed(["data=muvr", f"data.annotations={name}", f"data.features={name}", f"run={name}"])
    assert (cfg.data.annotations, cfg.data.features, cfg.run) == (name, name, name)
    Path(name).write_text("x")
    folder = f"{name} out"
    cfg = composed([f"ckpt_path={name}", f"out={folder}"], "evaluate")
    assert (cfg.ckpt_path, cfg.out, cfg.hydra.run.dir) == (name, folder, folder)


def test_runs_are_named_after_experiment_or_model_and_never_alike() -> None:
    first = composed(["experiment=zero_shot"]).run
    Path("checkpoints", first).mkdir(parents=True)
    assert composed(["experiment=zero_shot"]).run != first
    assert composed(["model=chamfer"]).run.startswith("chamfer-")
    assert composed(["run=mine"]).hydra.run.dir == "checkpoints/mine"
    assert composed(["model=frame_max"], "evaluate").out.startswith("outputs/frame_max-")


def test_a_second_run_in_one_folder_is_refused() -> None:
    Path("checkpoints/a").mkdir(parents=True)
    cli.prepare(["run=a"], "train")
    Path("checkpoints/a/config.yaml").touch()
    with pytest.raises(ConfigError, match=r"run=a: checkpoints/a holds a run.*resume_from=checkpoints/a"):
        cli.prepare(["run=a"], "train")
    cli.prepare(["run=a", "--cfg", "job"], "train")


def test_sweeps_get_a_folder_for_each_job() -> None:
    assert cli.prepare(["-m", "seed=1,2", "run=a"], "train") == ["-m", "seed=1,2", "run='a_${hydra:job.num}'"]
    assert cli.prepare(["seed=1,2", "-m", "run=a,b"], "train") == ["-m", "seed=1,2", "run='a','b'"]
    prepared = cli.prepare(["-m", "model=frame_max,chamfer"], "evaluate")
    assert prepared[2].startswith("out='outputs/")
    assert prepared[2].endswith("_${hydra:job.num}'")


@pytest.mark.parametrize("sweep", ["seed=range(1,4)", "model=glob(s2*)", "optimizer.lr=interval(0.1,1)"])
def test_all_kinds_of_sweeps_pass(sweep: str) -> None:
    assert cli.prepare(["-m", sweep], "train")[1] == sweep


def test_added_and_removed_settings_pass() -> None:
    argv = ["+anything.new=1", "++seed=3", "~data.batch.hard_negatives"]
    assert cli.prepare(argv, "train")[:3] == argv


def test_a_users_own_group_option_and_module_are_found(tmp_path: Path) -> None:
    own = tmp_path / "project" / "my configs"
    (own / "fusion").mkdir(parents=True)
    (own / "fusion" / "my_head.yaml").write_text("_target_: my_head_of_a_test.MyHead\nstrength: 0.3\n")
    argv = ["--config-dir", str(own), "fusion=my_head", "fusion.strength=0.5"]
    with pytest.raises(ConfigError, match="my_head_of_a_test"):
        cli.prepare(argv, "train")
    (tmp_path / "project" / "my_head_of_a_test.py").write_text("raise RuntimeError('imported too early')\n")
    assert composed(argv, extra=own).fusion.strength == 0.5
    with pytest.raises(ConfigError, match=r"did you mean 'fusion.strength'"):
        cli.prepare(["--config-dir", str(own), "fusion=my_head", "fusion.strenth=0.5"], "train")


def test_several_processes_need_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="run=NAME"):
        cli.prepare([], "train")
    Path("checkpoints/a").mkdir(parents=True)
    Path("checkpoints/a/config.yaml").touch()
    monkeypatch.setenv("RANK", "1")
    assert cli.prepare(["run=a"], "train") == [
        *("run='a'", "hydra.output_subdir=null", "hydra.job.name=train_ddp_process_1")
    ]


def test_processes_that_a_run_starts_itself_take_their_arguments_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUVR_TRAIN_PREPARED", "1")
    given = ["--config-dir", "x", "run='a'", "resume_from='b'", "hydra.job.name=train_ddp_process_1"]
    assert cli.prepare(given, "train") == given


def test_a_sweep_does_not_start_processes() -> None:
    with pytest.raises(ConfigError, match=r"-m with trainer.devices=2.*hydra/launcher=slurm"):
        cli.prepare(["-m", "trainer=ddp_cpu", "seed=1,2"], "train")


def save_run(name: str, argv: list[str]) -> Path:
    """Write what Hydra writes when a run starts."""
    folder = Path("checkpoints") / name
    texts = [text for text in cli.prepare([*argv, f"run={name}"], "train") if "=" in text]
    cfg = Composer(cli.config_dir(), "train").compose(texts)
    (folder / ".hydra").mkdir(parents=True)
    OmegaConf.save(OmegaConf.create(texts), folder / ".hydra" / "overrides.yaml")
    OmegaConf.save(OmegaConf.create({"hydra": cfg.hydra}), folder / ".hydra" / "hydra.yaml")
    OmegaConf.save(OmegaConf.masked_copy(cfg, [k for k in cfg if k != "hydra"]), folder / ".hydra" / "config.yaml")
    (folder / "config.yaml").touch()
    (folder / "last.ckpt").touch()
    return folder


@pytest.mark.parametrize("given", ["checkpoints/a b", "./checkpoints/a b/last.ckpt", "checkpoints/latest"])
def test_resume_takes_up_the_runs_own_settings(given: str) -> None:
    save_run("a b", ["experiment=s2vs_self_supervised", "data.videos=my [clips]", "optimizer.lr=0.5", "+extra=1"])
    Path("checkpoints/latest").symlink_to("a b")
    cfg = composed([f"resume_from={given}", "trainer.max_epochs=99", "optimizer.lr=0.25"])
    assert cfg.hydra.runtime.choices.experiment == "s2vs_self_supervised"
    assert (cfg.run, cfg.data.videos, cfg.extra) == ("a b", "my [clips]", 1)
    assert (cfg.trainer.max_epochs, cfg.optimizer.lr) == (99, 0.25)
    assert Path(cfg.resume_from).resolve().is_relative_to(Path("checkpoints/a b").resolve())
    assert cfg.hydra.run.dir == "checkpoints/a b"


def test_resume_of_a_resumed_run_and_before_the_first_checkpoint() -> None:
    folder = save_run("a", ["seed=4"])
    (folder / "last.ckpt").unlink()
    once = cli.prepare(["resume_from=checkpoints/a", "trainer.max_epochs=3"], "train")
    OmegaConf.save(OmegaConf.create(once), folder / ".hydra" / "overrides.yaml")
    cfg = composed(["resume_from=checkpoints/a"])
    assert (cfg.seed, cfg.trainer.max_epochs, cfg.run) == (4, 3, "a")


def test_resume_mistakes(tmp_path: Path) -> None:
    folder = save_run("a", [])
    with pytest.raises(ConfigError, match=r"resume_from=checkpoints/b: .* can be continued: checkpoints/a"):
        cli.prepare(["resume_from=checkpoints/b"], "train")
    with pytest.raises(ConfigError, match="leave out run="):
        cli.prepare(["resume_from=checkpoints/a", "run=b"], "train")
    with pytest.raises(ConfigError, match=r"resume_from=checkpoints/a/best\.ckpt"):
        cli.prepare(["resume_from=checkpoints/a/best.ckpt"], "train")
    (folder / ".hydra" / "overrides.yaml").unlink()
    with pytest.raises(ConfigError, match=r"overrides.yaml.* is missing"):
        cli.prepare(["resume_from=checkpoints/a"], "train")
    elsewhere = tmp_path / "elsewhere" / "a"
    (elsewhere / ".hydra").mkdir(parents=True)
    (elsewhere / ".hydra" / "overrides.yaml").write_text("[]")
    with pytest.raises(ConfigError, match="Run this where the run was started"):
        cli.prepare([f"resume_from={elsewhere}"], "train")


def test_a_checkpoint_is_evaluated_on_the_data_of_its_run() -> None:
    save_run(
        "a",
        [
            "experiment=s2vs_self_supervised",
            "data.videos=my [clips]",
            "benchmark.split=val",
            "benchmark.ks=[1,7]",
            "data.fractions=[0.5,0.2,0.3]",
        ],
    )
    cfg = composed(["ckpt_path=checkpoints/a/last.ckpt"], "evaluate")
    assert (cfg.data.kind, cfg.data.videos, cfg.data.regime) == ("folder", "my [clips]", "self_supervised")
    assert (cfg.benchmark.name, list(cfg.benchmark.ks), cfg.encoder.name) == ("copies", [1, 7], "efficientnet_lite0")
    assert cfg.benchmark.split is None
    assert cfg.out.startswith("outputs/a-")
    cfg = composed(["ckpt_path=checkpoints/a/last.ckpt", "data.videos=others", "benchmark.ks=[2]"], "evaluate")
    assert (cfg.data.kind, cfg.data.videos, list(cfg.benchmark.ks)) == ("folder", "others", [2])
    cfg = composed(["ckpt_path=checkpoints/a/last.ckpt", "data=demo"], "evaluate")
    assert (cfg.data.kind, cfg.benchmark.name, cfg.encoder.name) == ("demo", "muvr_base", "demo")


TRAINED = {
    "data.batch.topics": 7, "data.batch.tags": 0.25, "data.augment.noise": 0.5, "data.part_dropout.text": 0.5,
    "data.mining.every_n_epochs": 1, "data.workers": 0, "data.prefetch": 0, "data.joint_share": 0.25,
    "data.soft_mixing": 0.5, "data.optional_parts": True, "data.regions": True, "data.shared_intros": 0.25,
}  # fmt: skip


@pytest.mark.parametrize("experiment", options("experiment"))
@pytest.mark.parametrize("changed", [False, True])
def test_the_checkpoint_of_every_experiment_can_be_evaluated(experiment: str, changed: bool) -> None:
    """Whatever only training reads: an evaluation leaves it alone."""
    folder = save_run("a", [f"experiment={experiment}", *WITH_EXPERIMENT.get(experiment, [])])
    if changed:
        saved = OmegaConf.load(folder / ".hydra" / "config.yaml")
        for key, value in {**TRAINED, "data.fractions": [0.25, 0.25, 0.5]}.items():
            OmegaConf.update(saved, key, value, force_add=True)
        OmegaConf.save(saved, folder / ".hydra" / "config.yaml")
        assert {key.split(".")[1] for key in TRAINED} == {name for name, group in TRAINING.items() if group == "data"}
    cfg = composed(["ckpt_path=checkpoints/a/last.ckpt"], "evaluate")
    assert cfg.data.kind == OmegaConf.load(folder / ".hydra" / "config.yaml").data.kind
    if changed:
        assert list(cfg.data.fractions) == [0.25, 0.25, 0.5]
        assert all(OmegaConf.select(cfg, key) != value for key, value in TRAINED.items())


def test_a_sweep_over_checkpoints_keeps_the_data_of_their_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a ü", "b"):
        folder = save_run(name, ["experiment=s2vs_evaclip", "data.size=tiny"])
        (folder / "best.ckpt").touch()
    save_run("other", ["experiment=s2vs_evaclip", "data.fractions=[0.25,0.25,0.5]"])
    capsys.readouterr()
    swept = "ckpt_path='checkpoints/a ü/last.ckpt',checkpoints/b,checkpoints/b/last.ckpt"
    texts = cli.prepare(["-m", swept], "evaluate")
    assert "++data.size='tiny'" in texts
    assert "ckpt_path='checkpoints/a ü/last.ckpt','checkpoints/b/best.ckpt','checkpoints/b/last.ckpt'" in texts
    assert capsys.readouterr().err.count("settings of the checkpoint's run are kept") == 1
    unlike = ["-m", "ckpt_path='checkpoints/a ü/last.ckpt',checkpoints/other/last.ckpt"]
    with pytest.raises(ConfigError, match=r"a ü/last.ckpt and checkpoints/other/last.ckpt .*data.size.*data.fractions"):
        cli.prepare(unlike, "evaluate")
    assert "data=demo" in cli.prepare([*unlike, "data=demo"], "evaluate")


@pytest.mark.parametrize("benchmark", [[], ["benchmark=muvr_filter"], ["benchmark=muvr_base", "benchmark.ks=[3]"]])
def test_the_checkpoint_of_a_fold_brings_its_fold_along(benchmark: list[str]) -> None:
    save_run("a", ["experiment=s2vs_evaclip", "benchmark.folds=3", "benchmark.fold=1"])
    cfg = composed(["ckpt_path=checkpoints/a/last.ckpt", *benchmark], "evaluate")
    assert (cfg.benchmark.folds, cfg.benchmark.fold, cfg.benchmark.split_source) == (3, 1, "topic")


def results_of(folder: Path, **meta: Any) -> None:
    folder.mkdir()
    (folder / "results.json").write_text(json.dumps({"meta": meta}))


def test_results_of_another_checkpoint_are_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.ckpt").write_bytes(b"one")
    for name, content in (("same", b"one"), ("other", b"two")):
        digest = hashlib.sha256(content).hexdigest()
        results_of(tmp_path / name, checkpoint="a.ckpt", checkpoint_sha256=digest, config={})
    cli.prepare(["ckpt_path=b.ckpt", "out=same"], "evaluate")
    with pytest.raises(ConfigError, match=r"out=other holds results of a.ckpt, and those of b.ckpt would replace them"):
        cli.prepare(["ckpt_path=b.ckpt", "out=other"], "evaluate")
    cli.prepare(["ckpt_path=b.ckpt", "out=other", "overwrite=true"], "evaluate")
    config = {"run": "base", "model": {}}
    results_of(tmp_path / "run", checkpoint_sha256=hashlib.sha256(b"one").hexdigest(), config=config)
    with pytest.raises(ConfigError, match="out=run holds results of the training run base"):
        cli.prepare(["ckpt_path=b.ckpt", "out=run"], "evaluate")


def test_results_of_another_untrained_model_are_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cfg = Composer(cli.config_dir(), "evaluate").compose(["model=frame_max"])
    config = {key: OmegaConf.to_container(cfg[key]) for key in ("model", "fusion")}
    results_of(tmp_path / "there", model="frame_max", config={**config, "scores": None})
    cli.prepare(["model=frame_max", "out=there"], "evaluate")
    with pytest.raises(ConfigError, match="holds results of frame_max, and those of chamfer would replace them"):
        cli.prepare(["model=chamfer", "out=there"], "evaluate")
    cli.prepare(["model=chamfer", "out=there", "overwrite=true"], "evaluate")


def test_reranked_results_are_not_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cfg = Composer(cli.config_dir(), "evaluate").compose(["model=frame_max"])
    config = {key: OmegaConf.to_container(cfg[key]) for key in ("model", "fusion")}
    results_of(tmp_path / "there", model="frame_max", config={**config, "scores": None})
    path = tmp_path / "there" / "results.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "reranked": [{"name": "asked"}]}))
    with pytest.raises(ConfigError, match=r"out=there holds reranked results \(asked\), .*as you leave out rerank="):
        cli.prepare(["model=frame_max", "out=there"], "evaluate")
    cli.prepare(["model=frame_max", "out=there", "overwrite=true"], "evaluate")
    cli.prepare(["model=frame_max", "out=there", "rerank=keep_drop", "answerer=coin"], "evaluate")

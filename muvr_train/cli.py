"""The command line before Hydra: settings as typed, checked and completed in a fraction of a second.

`prepare` turns the user's arguments into arguments for `@hydra.main`; it imports no torch.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from muvr_train.config_checks import asks_for_processes, check_sources, check_values
from muvr_train.ending import debugging, reporting
from muvr_train.errors import ConfigError, shorten
from muvr_train.launched import PREPARED, rank, silence_torch, world_size
from muvr_train.preflight import runs
from muvr_train.preflight.annotated import with_data
from muvr_train.preflight.answerers import how_to_give
from muvr_train.preflight.complete import complete_out, complete_run
from muvr_train.preflight.compose import Composer, missing_keys, one_line
from muvr_train.preflight.exported import weights_file
from muvr_train.preflight.flags import parse_flags
from muvr_train.preflight.overrides import single, sweep_values
from muvr_train.preflight.questions import with_questions
from muvr_train.preflight.quoting import quote_override, quote_value, split_override
from muvr_train.preflight.values import OWN_MODEL_RULES, RULES


def config_dir() -> Path:
    """Give the folder of the configs: configs/ of a checkout, or the copy inside an installed wheel."""
    package = Path(__file__).resolve().parent
    return next(path for path in (package / "configs", package.parent / "configs") if (path / "train.yaml").is_file())


def start(config_name: str) -> None:
    """Prepare sys.argv for `@hydra.main`; on a mistake print it and exit."""
    if debugging():
        os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    with reporting():
        sys.argv[1:] = prepare(sys.argv[1:], config_name)


def prepare(argv: list[str], config_name: str) -> list[str]:
    """Check and complete the arguments of `train` or `evaluate`.

    Args:
        argv: as typed, without the program's name.
        config_name: the main config.

    Returns:
        Arguments for Hydra: path-like values quoted, `run` (or `out`) named, and with `resume_from` the run's own
        settings before the new ones.

    Raises:
        ConfigError: a setting is unknown or impossible.
    """
    args = _parse(argv)
    flags = list(argv)
    for text in args.overrides:
        flags.remove(text)
    if args.experimental_rerun is not None:
        return argv
    if PREPARED in os.environ:  # started by another process of this run, which has checked them
        add_import_paths(args.config_dir and Path(args.config_dir))
        return argv
    typed = [quote_override(text, args.multirun) for text in args.overrides]
    if args.help or args.hydra_help or args.shell_completion or args.info is not None:
        add_import_paths(args.config_dir and Path(args.config_dir))
        return [*typed, *flags]
    resumed, new = _resumed(typed, args.multirun), typed
    extra = Path(args.config_dir) if args.config_dir else None
    if resumed is not None:
        typed = resumed.merge(typed)
        if extra is None and resumed.config_dir is not None:
            extra = resumed.config_dir
            flags += ["--config-dir", str(extra)]
    add_import_paths(extra)
    composer = Composer(_config_path(args), args.config_name or config_name, extra)
    typed = with_questions(with_data(typed, training=config_name == "train"), training=config_name == "train")
    if config_name == "evaluate":
        typed = _inherit(composer, typed)
    multirun = args.multirun or "hydra.mode=MULTIRUN" in typed
    configs = check(composer, typed, multirun)
    _check_start(configs, multirun, resumed, new)
    if args.config_path is None:
        complete = complete_run if config_name == "train" else complete_out
        typed = complete(typed, configs, multirun, resumed is not None, args.cfg is not None)
    if rank() > 0 and not multirun:  # one record of the settings, a log file for each process
        typed += ["hydra.output_subdir=null", f"hydra.job.name={config_name}_ddp_process_{rank()}"]
    return [*flags, *typed]  # Lightning puts more settings behind them for the processes it starts


def _parse(argv: list[str]) -> argparse.Namespace:
    args = parse_flags(argv)
    if args.cfg is not None and args.multirun:
        raise ConfigError("--cfg shows the settings of one run: leave out -m")
    return args


def add_import_paths(extra: Path | None) -> None:
    """Make a user's own modules importable: those in the working directory and beside --config-dir."""
    for folder in [Path.cwd(), *([extra.resolve().parent] if extra else [])]:
        if str(folder) not in sys.path:
            sys.path.append(str(folder))


def _config_path(args: argparse.Namespace) -> Path:
    return config_dir().parent / args.config_path if args.config_path else config_dir()


def _check_start(configs: list[DictConfig], multirun: bool, resumed: runs.Resumed | None, new: list[str]) -> None:
    """Refuse to go on otherwise than begun, and to start processes from one run after another.

    Each of these would start the whole sweep again.
    """
    if resumed is not None:
        resumed.check(configs[0], new)
    cfg = next(filter(asks_for_processes, configs), None)
    if cfg is None:
        return
    silence_torch()
    if multirun and cfg.hydra.runtime.choices.get("hydra/launcher") == "basic" and world_size() == 1:
        raise ConfigError(
            f"-m with trainer.devices={cfg.trainer.devices}: runs with several processes are started one by one, or "
            "as jobs of SLURM with hydra/launcher=slurm (docs/processes.md)"
        )


def _typed_value(typed: list[str], key: str, composer: Composer) -> str | None:
    for override in composer.parse([text for text in typed if split_override(text)[1] == key]):
        value = override.value()
        return value if isinstance(value, str) else None
    return None


def _resumed(typed: list[str], multirun: bool) -> runs.Resumed | None:
    given = [text for text in typed if split_override(text)[1] == "resume_from"]
    if not given:
        return None
    value = _typed_value(given, "resume_from", Composer(config_dir(), "train"))
    if value is None:
        return None
    if multirun:
        raise ConfigError("resume_from continues one run, -m starts several: leave out one of the two")
    return runs.find_resumed(value)


def check(composer: Composer, texts: list[str], multirun: bool, features: bool = True) -> list[DictConfig]:
    """Check names and values of all settings; sweeps value by value.

    Args:
        composer: of the program.
        texts: the settings.
        multirun: whether sweeps are allowed.
        features: whether features, or what they can be made from, must be named.

    Returns:
        The composed configs: the first holds the first value of every sweep.

    Raises:
        ConfigError: see there.
    """
    overrides = composer.parse(texts)
    for override in overrides:
        if override.is_sweep_override() and not multirun:
            listed = f"{override.get_key_element()}=[{','.join(sweep_values(override))}]"
            way_out = f", or put a list in brackets, as in {listed}" if _takes_list(composer, override, listed) else ""
            raise ConfigError(f"{override.input_line} has several values: add -m to run them in turn{way_out}")
    configs = composer.configs(overrides)
    for cfg in configs:
        try:
            if absent := missing_keys(cfg):
                raise ConfigError(f"{absent[0]} must be given: add {how_to_give(cfg, absent[0])}")
            check_values(cfg)
            if features:
                check_sources(cfg)
        except OmegaConfBaseException as error:
            raise ConfigError(one_line(error)) from error
    return configs


def _takes_list(composer: Composer, override: Override, listed: str) -> bool:
    """Whether a setting may be the list `listed`: a rule says so."""
    rule = RULES.get(override.key_or_group) or OWN_MODEL_RULES.get(override.key_or_group)
    value = composer.parse([listed])[0].value()
    return rule is not None and override.is_discrete_sweep() and rule.allows(OmegaConf.create({"value": value}).value)


def _inherit(composer: Composer, typed: list[str]) -> list[str]:
    """Evaluate a checkpoint on the data of its own run unless `typed` names other data; in a sweep, all on the same.

    Raises:
        ConfigError: those of a sweep were trained on different data.
    """
    given = [text for text in typed if split_override(text)[1] == "ckpt_path"]
    overrides = composer.parse(given)
    if not overrides or not (overrides[-1].is_discrete_sweep() or isinstance(overrides[-1].value(), str)):
        return typed
    each = [single(overrides[-1], value) for value in sweep_values(overrides[-1])]
    files = [weights_file(Path(str(one.value()))) for one in composer.parse(each)]
    if not all(file.is_file() for file in files):
        return typed
    kept = [_kept(composer, file, typed) for file in files]
    for file, settings in zip(files, kept, strict=True):
        if settings != kept[0]:
            unlike = [text for text in (*kept[0], *settings) if (text in kept[0]) != (text in settings)]
            raise ConfigError(
                f"ckpt_path: {files[0]} and {file} were trained on different data or splits ({shorten(unlike, 6)}): "
                "evaluate them one by one, or name the data (data=...)"
            )
    if kept[0]:
        sys.stderr.write(f"settings of the checkpoint's run are kept: {' '.join(kept[0])}\n")
    rest = [text for text in typed if text not in given]
    return [*kept[0], *rest, f"ckpt_path={','.join(quote_value(str(file)) for file in files)}"]


def _kept(composer: Composer, file: Path, typed: list[str]) -> list[str]:
    """The settings of a checkpoint's run that hold in its evaluation."""
    choices = runs.inherited_choices(file, typed)
    keys = {split_override(text)[1] for text in typed}
    values = runs.inherited_values(file, composer.compose(choices), choices)
    return [*choices, *(text for text in values if split_override(text)[1] not in keys)]

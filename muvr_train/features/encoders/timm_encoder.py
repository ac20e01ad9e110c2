"""Any timm model as a frame encoder: global features, or region grids from one or several stages in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from muvr_train.errors import ConfigError, DataError, shorten
from muvr_train.features.encoders.base import FrameEncoder
from muvr_train.features.encoders.pixels import FitFrames, check_fit
from muvr_train.features.encoders.places import join_maps, places
from muvr_train.features.encoders.pooling import region_grid
from muvr_train.features.encoders.running import first_line
from muvr_train.features.encoders.streams import StreamSpec
from muvr_train.features.encoders.weights import load_checked, read_weights, weights_hash
from muvr_train.names import nearest_names


class TimmEncoder(FrameEncoder):
    """A timm backbone.

    Args:
        architecture: a timm model name, optionally with its tag ("resnet50.a1_in1k").
        pretrained: true downloads the tag's weights, false leaves them random (seeded), a path loads a file.
        streams: name -> {grid, stages}; stages count the model's feature stages from 0. None: one global stream.
        size: edge of the input in pixels; default: the model's own.
        fit: "crop" (short edge, centre) or "squash" (whole picture).
        mean: pixel mean on a scale of 0 to 1; default: the model's own.
        std: pixel deviation on a scale of 0 to 1; default: the model's own.
        batch_size: frames per forward pass.
        name: what stores call the encoder; default: the architecture.
        device: where the network runs.
        precision: "32", "bf16" or "fp16".
        compile: use torch.compile.
        dim: the width that the features must have, for all streams or by stream; null: any.
        whitening: {dim: N} for PCA-whitening of the only stream to N dimensions, learned from a sample (see `fit`).

    Raises:
        ConfigError: unknown architecture, stage, setting, or a grid finer than its map.
        DataError: weights that cannot be had or do not fit.
    """

    def __init__(
        self,
        architecture: str,
        pretrained: bool | str | Path = True,
        streams: Mapping[str, Mapping[str, Any]] | None = None,
        size: int | None = None,
        fit: str = "crop",
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        batch_size: int = 32,
        name: str | None = None,
        device: torch.device | str = "cpu",
        precision: str = "32",
        compile: bool = False,  # noqa: A002
        dim: int | Mapping[str, int] | None = None,
        whitening: Mapping[str, Any] | None = None,
    ) -> None:
        import timm.data

        check_fit(fit)
        self.architecture = architecture
        self.specs = StreamSpec.parse(streams)
        model = _create(architecture, pretrained is True)
        resolve: Any = timm.data.config.resolve_model_data_config
        own = resolve(model)
        self.framing = fit
        self.size = int(size or own["input_size"][-1])
        self.crop = float(own["crop_pct"])
        self.interpolation = own["interpolation"] if own["interpolation"] in ("bilinear", "bicubic") else "bicubic"
        self.mean = tuple(float(value) for value in (mean or own["mean"]))
        self.std = tuple(float(value) for value in (std or own["std"]))
        self.preprocess = FitFrames(self.size, fit, self.crop, self.interpolation)
        self.pretrained, self.weights_hash = self._load(model, pretrained)
        super().__init__(name or architecture, self._optimize(model.eval()), batch_size, device, precision, compile)
        self._stages = self._plan()
        self.check_settings((self.size, self.size), dim, whitening)

    def _load(self, model: Any, pretrained: bool | str | Path) -> tuple[str | None, str]:
        """Load the weights; returns what the manifest calls them, and their hash."""
        label = str(model.pretrained_cfg.get("tag") or "default") if pretrained is True else None
        if not isinstance(pretrained, bool):
            heads = model.pretrained_cfg.get("classifier") or ()
            ignore = (heads,) if isinstance(heads, str) else tuple(heads)
            load_checked(model, read_weights(Path(pretrained)), str(pretrained), ignore)
            label = f"file:{Path(pretrained).name}"
        return label, weights_hash(model)

    def _optimize(self, model: nn.Module) -> nn.Module:
        return model

    def _plan(self) -> dict[str, tuple[int, ...] | None]:
        """Resolve each stream's stages to indices from 0; None where the stream is the model's global feature."""
        count = len(self.model.feature_info) if hasattr(self.model, "feature_info") else 0
        plan: dict[str, tuple[int, ...] | None] = {}
        for name, spec in self.specs.items():
            if spec.stages is None and spec.grid == 1:
                plan[name] = None
                continue
            if not hasattr(self.model, "forward_intermediates") or not count:
                raise ConfigError(
                    f"{self.architecture} gives no feature maps; only streams.{name}.grid=1 works with it"
                )
            stages = spec.stages or (-1,)
            if bad := [stage for stage in stages if not -count <= stage < count]:
                raise ConfigError(
                    f"streams.{name}.stages: {self.architecture} has stages 0 to {count - 1}, got {bad[0]}"
                )
            plan[name] = tuple(stage % count for stage in stages)
        return plan

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the streams."""
        return tuple(self.specs)

    def compute(self, x: Tensor) -> dict[str, Tensor]:
        """Features [n, R, D] per stream; runs only as deep as the stages need."""
        wanted = sorted({stage for stages in self._stages.values() for stage in stages or ()})
        needs_head = None in self._stages.values()
        maps: dict[int, Tensor] = {}
        final = x
        if wanted and needs_head:
            final, outputs = self.model.forward_intermediates(x, indices=wanted)
            maps = dict(zip(wanted, outputs, strict=True))
        elif wanted:
            maps = dict(zip(wanted, self._maps(x, wanted), strict=True))
        else:
            final = self.model.forward_features(x)
        pooled: Any = self._head(final)[:, None] if needs_head else None
        return {
            name: pooled if stages is None else region_grid([maps[stage] for stage in stages], self.specs[name].grid)
            for name, stages in self._stages.items()
        }

    def compute_maps(self, x: Tensor, stream: str) -> Tensor:
        """The stream's stages at the finest resolution, or the last map where it is the global feature."""
        stages = self._stages[stream]
        if stages is not None:
            found = dict(zip(sorted(set(stages)), self._maps(x, sorted(set(stages))), strict=True))
            return join_maps([found[stage] for stage in stages])
        maps, project = places(self.model, self.model.forward_features(x), self._head)
        return project(maps.flatten(2).transpose(1, 2)).view(len(x), *maps.shape[2:], -1)

    def _maps(self, x: Tensor, stages: Sequence[int]) -> list[Tensor]:
        """The outputs [n, C, H, W] of stages in rising order."""
        maps: list[Tensor] = self.model.forward_intermediates(
            x, indices=list(stages), stop_early=True, intermediates_only=True
        )
        return maps

    def _head(self, features: Tensor) -> Tensor:
        pooled: Tensor = self.model.forward_head(features, pre_logits=True)
        return pooled

    def manifest(self) -> dict[str, Any]:
        """Plain data for `make_manifest`."""
        return {
            "encoder": self.name,
            "architecture": f"timm/{self.architecture}",
            "pretrained": self.pretrained,
            "weights_hash": self.weights_hash,
            "preprocessing": {
                "size": self.size,
                "fit": self.framing,
                "crop": self.crop if self.framing == "crop" else None,
                "interpolation": self.interpolation,
                "mean": list(self.mean),
                "std": list(self.std),
            },
            "features": {name: spec.manifest() for name, spec in self.specs.items()},
            **self.settings(),
        }


def _create(architecture: str, download: bool) -> Any:
    """Make the model without classifier; random weights are seeded, so that they are the same in every run."""
    import timm

    base, _, tag = architecture.partition(".")
    if not timm.is_model(base):
        near = timm.list_models(f"*{base}*") or nearest_names(base, timm.list_models(), 5)
        raise ConfigError(
            f"encoder.architecture={architecture}: timm has no such model"
            + (f"; near: {shorten(near, 8)}" if near else "; `timm.list_models('*name*')` lists them")
        )
    tags = [known.partition(".")[2] for known in timm.list_pretrained(f"{base}.*")]
    if tag and tag not in tags:
        raise ConfigError(
            f"encoder.architecture={architecture}: {base} has no weights {tag!r}; its tags: "
            f"{shorten(tags, 20) or 'none'}"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            return timm.create_model(architecture, pretrained=download, num_classes=0)
        except (RuntimeError, OSError, ValueError) as error:
            if not download:
                raise ConfigError(f"encoder.architecture={architecture}: {error}") from error
            raise DataError(
                f"the weights of {architecture} cannot be had ({first_line(error)}); "
                "without network give encoder.pretrained=<weight file>"
            ) from error

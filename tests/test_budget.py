"""What an evaluation holds is known at its start: by the sizes of what a store holds, to the byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muvr_train import cli
from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.types import Benchmark, Partition
from muvr_train.budget import demands, mining_demands, refuse_small_budget
from muvr_train.data.batch import load_queries
from muvr_train.errors import ConfigError
from muvr_train.evaluation import Protocol, evaluate, evaluate_scores
from muvr_train.features.store import FeatureStore
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.base import FusionHead
from muvr_train.models.fusion.combiner import Combiner
from muvr_train.models.fusion.weighted import WeightedFusion
from muvr_train.models.retriever import Retriever
from muvr_train.models.s2vs import S2VS
from muvr_train.preflight.compose import Composer
from muvr_train.runner.data import open_data
from muvr_train.runner.models import build_retriever, limited
from muvr_train.runner.refusals import evaluated_parts, refuse_holes
from muvr_train.search import shares
from muvr_train.search.exhaustive import Demand
from muvr_train.search.held import HeldScores
from muvr_train.search.mining import mine
from muvr_train.search.planning import QuerySizes
from muvr_train.search.sources import ModelScores
from muvr_train.search.texts import served_modes
from tests.parts import make_parts
from tests.toy import make_toy

World = tuple[Path, FeatureStore]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_parts(tmp_path_factory.mktemp("parts"))


def model_of(store: FeatureStore, head: type[FusionHead] = WeightedFusion, network: Any = FrameMax) -> Retriever:
    return Retriever(network(store.dims.dim, store.dims.regions), head(store.dims), store.dims)


def with_budget(model: Retriever, budget: int) -> Retriever:
    model.network.memory_budget = budget
    return model


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Demand]:
    """The demands of whatever is scored."""
    found: list[Demand] = []
    plain = shares.block_bytes

    def noting(device: Any, budget: int | None, demand: Demand) -> int:
        found.append(demand)
        return plain(device, budget, demand)

    monkeypatch.setattr(shares, "block_bytes", noting)
    return found


def benchmarks(annotations: Path) -> dict[str, Benchmark]:
    """Plain queries with tags and regions beside; expressions alone; two tasks that ask the same queries."""
    beside = read_muvr(annotations, filters="beside").select("all", "full")
    news = beside["news"]
    more = replace(news, name="more", database=news.database[::2], filters=())
    return {
        "beside": beside,
        "filters": read_muvr(annotations, filters=True).select("all", "full"),
        "joint": replace(beside, partitions=(news, more)),
    }


@pytest.mark.parametrize("name", ["beside", "filters", "joint"])
@pytest.mark.parametrize(("head", "network"), [(WeightedFusion, FrameMax), (Combiner, S2VS)])
def test_the_demands_are_those_of_the_evaluation(
    world: World, asked: list[Demand], name: str, head: type[FusionHead], network: Any
) -> None:
    benchmark, model = benchmarks(world[0])[name], model_of(world[1], head, network)
    source = ModelScores(with_budget(model, 10**9), world[1], memory_budget=10**9)
    planned = [demand for _, demand in demands(source, benchmark, served_modes(source, benchmark))]
    assert not asked, "nothing is scored"
    evaluate_scores(source, benchmark)
    assert set(asked) == set(planned)
    assert len(planned) >= (2 if name == "joint" else 4), "partitions and their tags"


@pytest.mark.parametrize("frames_as_text", [False, True])
@pytest.mark.parametrize("regions", [False, True])
def test_sizes_are_those_of_loaded_queries(world: World, frames_as_text: bool, regions: bool) -> None:
    annotations, store = world
    for partition in read_muvr(annotations).partitions:
        ghost = replace(partition.queries[0], id="ghost")
        queries = (*partition.queries, ghost, replace(ghost, id="nothing", video="nothing"))
        sizes = QuerySizes.of(store, queries, frames_as_text, regions)
        loaded = load_queries(store, queries, frames_as_text=frames_as_text, regions=regions)
        parts = {"video": loaded.video, "text": loaded.text, "region": loaded.region}
        for name, part in parts.items():
            assert getattr(sizes, name) == (0 if part is None else part.mask.shape[1])
            if name in loaded.present:
                assert list(sizes.present[name]) == loaded.present[name].tolist()
        tokens = sum(part.x.nbytes for part in parts.values() if part is not None)
        assert loaded.video is not None
        video = focused = loaded.video.x.nbytes
        if loaded.region is not None:
            focused = video // loaded.video.x.shape[1] * max(sizes.video, sizes.region)
            tokens += focused
        assert sizes.held(store, rewritten=3) == 3 * tokens + 2 * 3 * focused


def least(source: ModelScores, benchmark: Benchmark, modes: tuple[str, ...]) -> int:
    """The budget that a refusal asks for."""
    with pytest.raises(ConfigError, match=r"memory_budget=.* is too small for .*partition") as caught:
        refuse_small_budget(source, demands(source, benchmark, modes))
    number, unit = str(caught.value).split("give at least ")[1].split(" ")
    return round(float(number) * {"kB": 10**3, "MB": 10**6}[unit])


@pytest.mark.parametrize("name", ["beside", "filters"])
@pytest.mark.parametrize(("head", "network"), [(WeightedFusion, FrameMax), (Combiner, S2VS)])
def test_the_budget_that_is_asked_for_is_enough_for_all(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str, head: type[FusionHead], network: Any
) -> None:
    benchmark, store, tight = benchmarks(world[0])[name], world[1], 20_000
    model = with_budget(model_of(store, head, network), tight)
    with monkeypatch.context() as patch:
        patch.setattr(FeatureStore, "tokens", tokens_of_tags_only(store))
        source = ModelScores(model, store, memory_budget=tight)
        needed = least(source, benchmark, served_modes(source, benchmark))
        with pytest.raises(ConfigError, match="is too small for"):
            evaluate(model, store, benchmark, Protocol(memory_budget=tight))
    free = evaluate(with_budget(model, 10**9), store, benchmark)
    given = evaluate(with_budget(model, needed), store, benchmark, Protocol(memory_budget=needed))
    for one, other in zip(given.rows, free.rows, strict=True):
        assert one["metrics"] == pytest.approx(other["metrics"], abs=1e-6)
    with pytest.raises(ConfigError, match="is too small for"):
        evaluate(with_budget(model, int(0.9 * needed)), store, benchmark, Protocol(memory_budget=int(0.9 * needed)))


def tokens_of_tags_only(store: FeatureStore) -> Any:
    plain = type(store).tokens

    def tokens(self: FeatureStore, ids: Any, stream: str = "video") -> Any:
        assert stream == "tags", "tokens were read before the budget was refused"
        return plain(self, ids, stream)

    return tokens


def test_mining_is_counted_partition_by_partition(world: World, asked: list[Demand]) -> None:
    benchmark = benchmarks(world[0])["joint"]
    source = ModelScores(model_of(world[1]), world[1], memory_budget=10**9)
    planned = [demand for _, demand in mining_demands(source, benchmark, "tv")]
    mine(source, benchmark, "tv", 3)
    assert asked == planned
    assert len(planned) == 2


def test_partitions_without_features_and_scores_at_hand_need_nothing(world: World) -> None:
    benchmark = benchmarks(world[0])["beside"]
    news = benchmark["news"]
    strange = Partition("strange", tuple(replace(q, id="?", video="?") for q in news.queries[:1]), (), ("?",))
    source = ModelScores(model_of(world[1]), world[1], memory_budget=1)
    assert list(demands(source, replace(benchmark, partitions=(strange,)), ("v",))) == []
    refuse_small_budget(source, [])
    held = HeldScores({"v": {"news": ModelScores(source.model, world[1]).score(news, ("v",))["v"]}})
    assert list(demands(held, benchmark, ("v",))) == []
    refuse_small_budget(held, [("", Demand(10**9, 10**9))])


def test_a_run_asks_for_enough_for_all_its_evaluations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of validation, test and the folds that follow, the one that needs most, and mining, decide."""
    monkeypatch.setenv("MUVR_TRAIN_CACHE", str(tmp_path / "cache"))
    make_toy(tmp_path)

    def asked(*settings: str) -> tuple[list[int], float]:
        folders = f"data.annotations={tmp_path}/annotations", f"data.features={tmp_path}/features"
        argv = ["data=muvr", *folders, "model=frame_max", "memory_budget=10kB", *settings]
        cfg = Composer(cli.config_dir(), "train").compose(argv)
        data = open_data(cfg)
        model = limited(build_retriever(cfg.model, cfg.fusion, data.store.dims), cfg)
        with pytest.raises(ConfigError, match=r"memory_budget=10\.0 kB is too small for") as caught:
            refuse_holes(cfg, model, data)
        sizes = [len(part.queries) for part in evaluated_parts(cfg, data, trained=True)]
        return sizes, float(str(caught.value).split("give at least ")[1].split(" ")[0])

    sizes, needed = asked("data.fractions=[0.4,0.2,0.4]")
    assert sizes[0] < sizes[1]
    _, mined = asked("data.fractions=[0.4,0.2,0.4]", "data.mining.every_n_epochs=1")
    assert mined >= needed
    folds, _ = asked("benchmark.folds=3", "benchmark.fold=0")
    assert len(folds) == 6
    assert len(asked("benchmark.folds=3", "benchmark.fold=2")[0]) == 2

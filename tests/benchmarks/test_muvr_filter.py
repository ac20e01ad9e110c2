"""What MUVR-Filter asks: judgements per query and tag expression, doubtful readings, splits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muvr_train.benchmarks.expressions import Condition
from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.muvr_filter import filter_rows
from muvr_train.benchmarks.published import published_rows
from muvr_train.benchmarks.splits import apply_splits
from muvr_train.errors import DataError
from tests.tagged import EXPRESSIONS, make_tagged
from tests.toy import make_toy


def change(file: Path, **values: object) -> None:
    """Change the lists of the first query of a query_tag_lists.json."""
    content = json.loads(file.read_text())
    content[0]["tag_lists"] = {text: {"id_list": ids} for text, ids in values.items()}
    file.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def test_judgements_of_the_golden_annotation(shared: Path) -> None:
    annotations = shared / "golden/muvr_small/annotations"
    benchmark = read_muvr(annotations, filters=True)
    base = read_muvr(annotations)
    assert benchmark.name == "muvr_filter"
    assert [len(partition.filters) for partition in benchmark.partitions] == [66, 66, 66, 66, 68]
    assert [part.database for part in benchmark.partitions] == [part.database for part in base.partitions]
    assert benchmark.judgements == base.judgements
    assert not base.has_filters
    empty = [row for part in benchmark.partitions for row in part.filters if not row.positives]
    assert [row.expression for row in empty] == ["+4:3 frame", "AND +indoor -host's voice"]
    outside = {video for part in benchmark.partitions for row in part.filters for video in row.positives} - {
        video for part in benchmark.partitions for video in part.database
    }
    assert outside, "the golden data has videos that are only in a tag list"


def test_judgements_of_the_toy(tmp_path: Path) -> None:
    annotations, _ = make_tagged(tmp_path)
    news = read_muvr(annotations, filters=True)["news"]
    assert len(news.filters) == 9 * len(EXPRESSIONS)
    assert [row.expression for row in news.filters[: len(EXPRESSIONS)]] == list(EXPRESSIONS)
    assert {row.query for row in news.filters} == set(news.query_ids[:-1])
    first = news.filters[0]
    assert set(first.positives) == {*(f"news/t0m{i}" for i in range(4)), "news/d0", "news/t0q0"}
    assert set(news.filters[len(EXPRESSIONS)].positives) == {f"news/t0m{i}" for i in range(4)}


def test_a_split_keeps_the_expressions_of_its_queries_and_shrinks_the_database_by_base(tmp_path: Path) -> None:
    annotations, _ = make_tagged(tmp_path)
    whole = apply_splits(read_muvr(annotations, filters=True))
    base = apply_splits(read_muvr(annotations))
    part = whole.select("test", "split")
    assert {row.query for row in part["news"].filters} <= set(part["news"].query_ids)
    assert part["news"].filters
    assert part["news"].database == base.select("test", "split")["news"].database
    assert whole.select("test", "full")["news"].database == whole["news"].database


def test_doubtful_readings_are_reported_with_their_query(tmp_path: Path) -> None:
    annotations, _ = make_tagged(tmp_path)
    change(annotations / "news/query_tag_lists.json", **{"-high -rise buildings": [11], "+fog": [11]})
    benchmark = read_muvr(annotations, filters=True)
    joined = [line for line in benchmark.warnings if line.startswith("news/query_tag_lists.json: ")]
    broken, unknown = (
        next(line for line in joined if what in line) for what in ("official cuts break", "does not give")
    )
    assert "news/t0q0 '-high -rise buildings' as '-high-rise buildings'" in broken
    assert "(9)" in broken
    assert "news/t0q0 '+fog': fog" in unknown
    trees = {row.judgement.expression: row.expression for row in filter_rows(benchmark["news"])}
    assert trees["-high -rise buildings"] == Condition(-1, "high-rise buildings")
    assert filter_rows(benchmark["news"])[0].pairs == (("news/t0q0", "high-rise buildings"),)
    assert not any("tag expressions" in line for line in read_muvr(annotations).warnings)


@pytest.mark.parametrize("text", ["", "night", "AND", "+night -"])
def test_what_cannot_be_read_is_an_error_with_file_and_query(text: str, tmp_path: Path) -> None:
    annotations, _ = make_tagged(tmp_path)
    change(annotations / "dance/query_tag_lists.json", **{text: [11]})
    with pytest.raises(DataError, match=r"dance/query_tag_lists.json: tag expressions that cannot be read.*dance/t0q0"):
        read_muvr(annotations, filters=True)


def test_an_annotation_without_expressions_is_refused(tmp_path: Path) -> None:
    annotations, _ = make_toy(tmp_path)
    with pytest.raises(DataError, match="has no tag expression"):
        read_muvr(annotations, filters=True)


def test_published_figures_stand_beside_all_queries_only() -> None:
    rows = published_rows("muvr_filter")
    assert {row.mode: row.metrics["mAP"] for row in rows} == {"tag_0.0": 0.329, "tag_0.3": 0.34}
    assert published_rows("muvr_filter", split="test") == ()

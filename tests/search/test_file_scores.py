"""Score files as sources: ids matched in any order and spelling, what is missing, and parity with golden numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.types import Benchmark, Judgement, Partition, Query
from muvr_train.errors import DataError
from muvr_train.evaluation import Protocol, evaluate_scores
from muvr_train.search.file_scores import FileScores
from muvr_train.search.score_files import ScoreBlock, ScoreFile

RNG = np.random.default_rng(0)


def partition(name: str = "news", queries: int = 2, videos: int = 4) -> Partition:
    ids = [f"{name}/q{row}" for row in range(queries)]
    database = (*(f"{name}/v{column}" for column in range(videos)), ids[0])
    return Partition(
        name,
        tuple(Query(query, name, f"{name}/t") for query in ids),
        tuple(Judgement(query, {f"{name}/v0": "match", f"{name}/v1": "match"}) for query in ids),
        database,
    )


NEWS, DANCE, OTHERS = partition(), partition("dance", 3, 5), partition("others")
BOTH = Benchmark("muvr_base", (NEWS, DANCE))
ONE = Benchmark("muvr_base", (NEWS,))
TRUTH = RNG.permutation(10).reshape(2, 5).astype(np.float32)
"""[q0, q1] x [v0, v1, v2, v3, q0] of news."""


def source(**blocks: tuple[Any, Any, Any]) -> FileScores:
    made = {name: ScoreBlock(tuple(q), tuple(d), np.asarray(s)) for name, (q, d, s) in blocks.items()}
    return FileScores(ScoreFile(Path("my scores.npz"), "scores", {"" if n == "all" else n: b for n, b in made.items()}))


def bare(ids: tuple[str, ...]) -> list[str]:
    return [name.rpartition("/")[2] for name in ids]


@pytest.mark.parametrize("spell", [list, bare])
def test_rows_and_columns_in_any_order_with_more_than_asked(spell: Any) -> None:
    rows, columns = [1, 0], [4, 2, 0, 1, 3]
    queries = [*np.array(spell(NEWS.query_ids))[rows].tolist(), "dance/q9"]
    videos = ["else", *np.array(spell(NEWS.database))[columns].tolist()]
    scores = np.full((3, 6), np.nan, np.float32)
    scores[:2, 1:] = TRUTH[np.ix_(rows, columns)]
    given = source(all=(queries, videos, scores))
    given.refuse_missing(ONE, given.modes)
    matrix = given.score(NEWS, given.modes)["scores"]
    assert (matrix.queries, matrix.database) == (NEWS.query_ids, NEWS.database)
    np.testing.assert_array_equal(matrix.scores, TRUTH)
    assert given.unknown(ONE) == {"queries": 1, "database": 1}
    assert given.label == "my scores"


def test_nothing_is_copied_where_all_is_in_order() -> None:
    given = source(all=(NEWS.query_ids, NEWS.database, TRUTH))
    assert np.shares_memory(given.score(NEWS, given.modes)["scores"].scores, TRUTH)


def test_old_names_of_partitions() -> None:
    block = ([f"geng/{name}" for name in bare(OTHERS.query_ids)], bare(OTHERS.database), TRUTH)
    for given in (source(all=block), source(geng=block, news=(["a"], ["b"], [[0.0]]))):
        np.testing.assert_array_equal(given.score(OTHERS, given.modes)["scores"].scores, TRUTH)


def test_every_partition_has_its_block_or_the_plain_one() -> None:
    dance = RNG.random((3, 6))
    blocks = {"dance": (bare(DANCE.query_ids), bare(DANCE.database), dance)}
    given = source(all=(bare(NEWS.query_ids), bare(NEWS.database), TRUTH), **blocks)
    given.refuse_missing(BOTH, given.modes)
    np.testing.assert_array_equal(given.score(DANCE, given.modes)["scores"].scores, dance)
    np.testing.assert_array_equal(given.score(NEWS, given.modes)["scores"].scores, TRUTH)
    assert given.unknown(BOTH) == {"queries": 0, "database": 0}
    assert given.unknown(ONE) == {"queries": 3, "database": 6}


def test_a_partition_that_no_block_serves() -> None:
    given = source(dance=(DANCE.query_ids, DANCE.database, RNG.random((3, 6))))
    with pytest.raises(DataError, match=r"no scores of partition news: its blocks are dance"):
        given.refuse_missing(BOTH, given.modes)


def test_a_partition_that_the_file_lacks_is_left_out_as_official_missing() -> None:
    videos = [*NEWS.database, *DANCE.database]
    given = source(news=(NEWS.query_ids, NEWS.database, TRUTH))
    for one in (given, source(all=(NEWS.query_ids, videos, RNG.random((2, len(videos)))))):
        assert list(one.known_queries(DANCE)) == []
        assert one.unknown(BOTH)["queries"] == 0
        results = evaluate_scores(one, BOTH, Protocol(on_missing="official"))
        assert [row["partition"] for row in results.rows] == ["news", "mean"]
        assert results.notes == ["dance: left out of mode scores, because no query or no database video has scores"]
        with pytest.raises(DataError, match="of partition dance"):
            evaluate_scores(one, BOTH)
    wrong = source(all=(["x"], ["y"], [[0.0]]))
    with pytest.raises(DataError, match=r"no query of partition news is in it. It has x; the benchmark has news/q0"):
        evaluate_scores(wrong, BOTH, Protocol(on_missing="official"))


def test_what_is_missing_is_listed() -> None:
    given = source(all=(["news/q1"], ["v0", "v3"], [[1.0, 0.0]]))
    with pytest.raises(DataError) as caught:
        given.refuse_missing(ONE, given.modes)
    message = str(caught.value)
    assert "my scores.npz lacks scores that benchmark muvr_base needs" in message
    assert "1 queries without a row: news/q0." in message
    assert "3 database videos without a column: news/v1, news/v2, news/q0." in message
    assert "on_missing=official" in message


def test_official_counts_what_is_missing_as_not_retrieved() -> None:
    given = source(all=(["news/q1"], ["v0", "v3"], [[0.0, 1.0]]))
    results = evaluate_scores(given, ONE, Protocol(ks=(1, 2), on_missing="official"))
    row = next(row for row in results.rows if row["partition"] == "news")
    assert row["mode"] == "scores"
    assert results.metrics("scores")["mAP"] == pytest.approx(0.5 / 2)  # v0 second of two, v1 never
    counts: Any = row["counts"]
    assert (counts["queries"], counts["missing_queries"], counts["missing_database"]) == (1, 1, 3)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_no_number_names_its_pair(value: float) -> None:
    scores = TRUTH.copy()
    scores[1, 2] = value
    given = source(all=(NEWS.query_ids, NEWS.database, scores))
    with pytest.raises(DataError, match=r"my scores.npz: 1 scores.* query news/q1 against database video news/v2"):
        given.score(NEWS, given.modes)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_query_against_its_own_video_may_score_anything(value: float) -> None:
    scores = TRUTH.copy()
    scores[0, 4] = value
    given = source(all=(NEWS.query_ids, NEWS.database, scores))
    own = evaluate_scores(given, ONE).metrics("scores")
    assert own == evaluate_scores(source(all=(NEWS.query_ids, NEWS.database, TRUTH)), ONE).metrics("scores")
    np.testing.assert_equal(scores[0, 4], value)  # the file's own matrix stays as it is


def test_nothing_in_common() -> None:
    given = source(all=(["dance/q0", "x"], NEWS.database, TRUTH))
    with pytest.raises(DataError, match=r"no query of partition news .* has dance/q0, x; .* has news/q0, news/q1"):
        given.refuse_missing(ONE, given.modes)
    given = source(all=(NEWS.query_ids, list("abcde"), TRUTH))
    with pytest.raises(DataError, match="no database video of partition news"):
        given.score(NEWS, given.modes)


def test_a_partition_without_scores_beside_one_with_some() -> None:
    given = source(all=(NEWS.query_ids, NEWS.database, TRUTH))
    event = replace(DANCE, name="event 1")
    both = Benchmark("evve", (NEWS, event))
    with pytest.raises(
        DataError, match=r"partition event 1 .*; the benchmark has .*on_missing=official to l"
    ) as caught:
        given.refuse_missing(both, given.modes)
    assert "ids may stand without" not in str(caught.value), "its ids have no partition before them"


def test_queries_and_database_swapped() -> None:
    given = source(all=([f"v{column}" for column in range(4)], ["q0", "q1"], RNG.random((4, 2))))
    with pytest.raises(DataError, match=r"swapped.*scores\.T"):
        given.refuse_missing(ONE, given.modes)


def test_one_video_in_two_spellings() -> None:
    given = source(all=(NEWS.query_ids, ["news/v0", "v0"], [[1.0, 2.0], [1.0, 2.0]]))
    with pytest.raises(DataError, match="news/v0 and v0 are the same video"):
        given.known_queries(NEWS)


@pytest.mark.parametrize("part", [NEWS, OTHERS])
def test_an_id_that_looks_like_another_ones_bare_spelling(part: Partition) -> None:
    """Table data may hold `v0` beside `news/v0`: a file with one of them has one of them."""
    twice = replace(part, database=("v0", *part.database))
    given = source(all=(part.query_ids, ("v0", *part.database), np.hstack([[[7.0], [8.0]], TRUTH])))
    matrix = given.score(twice, given.modes)["scores"]
    assert matrix.database == twice.database
    assert matrix.scores[:, 0].tolist() == [7.0, 8.0]
    np.testing.assert_array_equal(matrix.scores[:, 1:], TRUTH)
    given = source(all=(part.query_ids, ("v0", *part.database[1:]), TRUTH))
    with pytest.raises(DataError, match=rf"1 database videos without a column: {part.name}/v0\."):
        given.refuse_missing(Benchmark("table", (twice,)), given.modes)


def test_one_column_never_serves_two_videos() -> None:
    mixed = replace(OTHERS, database=("others/v0", "others/geng/v0"))
    given = source(all=(OTHERS.query_ids, ["geng/v0"], [[1.0], [2.0]]))
    with pytest.raises(DataError, match=r"could be others/v0 and others/geng/v0.*write ids in full"):
        given.known_queries(mixed)


@pytest.mark.parametrize("what", ["queries", "database"])
def test_one_row_or_column_never_serves_two_partitions(what: str) -> None:
    dance = partition("dance")
    both = Benchmark("muvr_base", (NEWS, dance))
    ids = {
        "queries": (bare(NEWS.query_ids), [*NEWS.database, *dance.database]),
        "database": ([*NEWS.query_ids, *dance.query_ids], bare(NEWS.database)),
    }[what]
    given = source(all=(*ids, np.zeros((len(ids[0]), len(ids[1])))))
    first = {"queries": "news/q0 and dance/q0", "database": "news/v0 and dance/v0"}[what]
    with pytest.raises(DataError, match=f"could be {first}"):
        given.refuse_missing(both, given.modes)
    with pytest.raises(DataError, match=f"could be {first}"):
        evaluate_scores(given, both, Protocol(on_missing="official"))
    evaluate_scores(given, ONE)


def test_tasks_that_share_queries_have_their_own_blocks() -> None:
    """FIVR's tasks ask the same queries: a block of its own for each is looked at, whatever its database."""
    hard = replace(NEWS, name="hard", database=NEWS.database[1:])
    tasks = Benchmark("fivr_5k", (NEWS, hard))
    right = np.array([[2.0, 1.0, 0.0, 0.0, 0.0]] * 2)
    given = source(news=(NEWS.query_ids, NEWS.database, right), hard=(hard.query_ids, hard.database, -right[:, 1:]))
    results = evaluate_scores(given, tasks)
    assert results.metrics("scores", "news")["mAP"] == 1.0
    assert results.metrics("scores", "hard")["mAP"] == pytest.approx((1 / 3 + 1 / 4) / 2)  # q0 does not rank q0
    assert given.unknown(tasks) == {"queries": 0, "database": 0}


def test_partitions_that_share_their_ids_share_rows_and_columns() -> None:
    tasks = Benchmark("fivr_5k", tuple(replace(NEWS, name=name) for name in ("DSVR", "CSVR")))
    given = source(all=(NEWS.query_ids, NEWS.database, TRUTH))
    results = evaluate_scores(given, tasks)
    assert results.metrics("scores", "DSVR") == results.metrics("scores", "CSVR")


@pytest.mark.parametrize("mode", ["v", "t", "tv"])
@pytest.mark.parametrize("blocks", [True, False])
def test_official_scores_give_the_official_numbers(shared: Path, mode: str, blocks: bool) -> None:
    folder = shared / "golden" / "muvr_small"
    given = np.load(folder / "scores.npz")
    golden = json.loads((folder / "golden.json").read_text())["toyclip"][mode]
    benchmark = read_muvr(folder / "annotations")
    made = {}
    for part in benchmark.partitions:
        of = {key: given[f"{part.name}/{key}"] for key in ("queries", "targets", "v", "t")}
        scores = (of["v"].astype(float) + of["t"]) / 2 if mode == "tv" else of[mode]
        made[part.name] = ScoreBlock(tuple(of["queries"].tolist()), tuple(of["targets"].tolist()), scores)
    if not blocks:
        made = {"": one_block(made)}
    source = FileScores(ScoreFile(folder / "scores.npz", mode, made))
    results = evaluate_scores(source, benchmark, Protocol(ks=(200, 500), on_missing="official"))
    for name in ("mAP", "uAP", "recall@200"):
        for part in benchmark.partitions:
            expected = golden["per_topic"][part.name][name]
            assert results.metrics(mode, part.name)[name] == pytest.approx(expected, abs=1e-9)
        assert results.metrics(mode)[name] == pytest.approx(golden["average"][name], abs=1e-9)


def one_block(blocks: dict[str, ScoreBlock]) -> ScoreBlock:
    """One matrix over all partitions, NaN where query and video are of different ones."""
    rows = sum(len(block.queries) for block in blocks.values())
    columns = sum(len(block.database) for block in blocks.values())
    scores = np.full((rows, columns), np.nan)
    queries: list[str] = []
    database: list[str] = []
    for name, block in blocks.items():
        at = len(queries), len(database)
        queries += [f"{name}/{query}" for query in block.queries]
        database += [f"{name}/{video}" for video in block.database]
        scores[at[0] : len(queries), at[1] : len(database)] = block.scores
    return ScoreBlock(tuple(queries), tuple(database), scores)


def test_an_own_video_that_is_ranked_needs_a_score() -> None:
    judgements = tuple(Judgement(row.query, row.positives, ranked=frozenset(NEWS.database)) for row in NEWS.judgements)
    part = replace(NEWS, judgements=judgements)
    scores = TRUTH.copy()
    scores[0, 4] = np.nan
    given = source(all=(NEWS.query_ids, NEWS.database, scores))
    with pytest.raises(DataError, match="query news/q0 against database video news/q0"):
        given.score(part, given.modes)

"""Labels of your own: what is read, what every oddity means, and that all faults come in one message."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muvr_train.benchmarks.leakage import drop_leaks, find_leaks
from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.splits import apply_splits
from muvr_train.benchmarks.table import read_table, video_files
from muvr_train.benchmarks.types import Benchmark
from muvr_train.errors import DataError
from tests.tables import write_table
from tests.toy import make_toy

VIDEOS = "video\na\nb\nc\nd\n"
QUERIES = '{"id": "q1", "video": "a", "text": "red"}\n{"id": "q2", "video": "a", "text": "blue"}\n'
RELEVANCE = "query,video,label\nq1,b,1\nq2,c,1\nq1,c,0\n"

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write the three files; a text or bytes each, None for a file that is missing."""

    def write(
        videos: str | bytes | None = VIDEOS,
        queries: str | bytes | None = QUERIES,
        relevance: str | bytes | None = RELEVANCE,
    ) -> Path:
        files = {"videos.csv": videos, "queries.jsonl": queries, "relevance.csv": relevance}
        for name, content in files.items():
            (tmp_path / name).unlink(missing_ok=True)
            if content is not None:
                (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path

    return write


def refusal(folder: Path) -> str:
    with pytest.raises(DataError) as caught:
        read_table(folder)
    return str(caught.value)


def lines(*entries: Mapping[str, Any]) -> str:
    return "\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)


def test_the_smallest_table(write: Write) -> None:
    benchmark = read_table(write())
    assert benchmark.name == "table"
    assert benchmark.warnings == ()
    (partition,) = benchmark.partitions
    assert (partition.name, partition.database) == ("all", ("a", "b", "c", "d"))
    first, second = partition.queries
    assert (first.id, first.video_id, first.text, first.tags) == ("q1", "a", "red", ())
    assert (second.id, second.video_id, second.text) == ("q2", "a", "blue")
    assert first.topic == second.topic == "all/q1"  # one video: one topic, so a split never cuts between them
    assert benchmark.judgement_by_query["q1"].positives == {"b": "match"}
    assert benchmark.judgement_by_query["q1"].negatives == {"c"}
    assert benchmark.judgement_by_query["q2"].positives == {"c": "match"}
    assert benchmark.video_ids == ("a", "b", "c", "d")


def test_what_training_may_assume_of_two_queries_of_one_video(write: Write) -> None:
    relevance = read_table(write()).relevance
    assert [relevance("q1", video) for video in "abcd"] == [-1, 1, 0, 0]
    assert [relevance("q2", video) for video in "abcd"] == [-1, -1, 1, 0]  # b matches q1, of the same topic


def test_a_querys_own_video_is_neither_match_nor_non_match(write: Write) -> None:
    benchmark = read_table(write(relevance=RELEVANCE + "q1,a,1\nq2,a,0\n"))
    assert benchmark.judgement_by_query["q1"].positives == {"b": "match"}
    assert benchmark.judgement_by_query["q2"].negatives == frozenset()
    assert benchmark.relevance("q1", "a") == benchmark.relevance("q2", "a") == -1
    (warning,) = benchmark.warnings
    assert warning == (
        "relevance.csv: labels of a query's own video (never counted) (2): line 5: 'q1', 'a', line 6: 'q2', 'a'"
    )


def test_levels_hard_non_matches_and_pairs_that_are_not_judged(write: Write) -> None:
    relevance = "query,video,label,level\nq1,b,1,copy\nq1,c,0,hard\nq1,d,-1,\nq2,b,TRUE,\nq2,c,No,\nq2,d,1.0,event\n"
    benchmark = read_table(write(relevance=relevance))
    first, second = benchmark.judgements
    assert (first.positives, first.negatives, first.hard_negatives, first.ignored) == (
        {"b": "copy"},
        {"c"},
        {"c"},
        {"d"},
    )
    assert (second.positives, second.negatives) == ({"b": "match", "d": "event"}, {"c"})
    assert second.hard_negatives == second.ignored == frozenset()
    assert benchmark.relevance("q1", "d") == -1


def test_everything_that_a_table_may_say(write: Write) -> None:
    videos = (
        "Video, Topic ,split,partition,path,gallery\r\n"
        '"a,1","t ""x""",train,news,"one, two.mp4",\r\n'
        "ü 素材,,test,news,,1\r\n"
        "[z]/{y}.mp4,,,dance,,yes\r\n"
        "7,,,dance,,no\r\n"
    )
    queries = lines(
        {"id": 1, "video": "a,1", "tags": ["+in door", "-crowd", "+in door"], "mask": "masks/1.png", "text": " "},
        {"id": "q=2", "video": 7, "split": "val", "topic": "own", "text": 'say "hi"\n'},
    )
    relevance = "video,label,query\r\nü 素材,1,1\r\n[z]/{y}.mp4,1,q=2\r\n"
    benchmark = read_table(write(b"\xef\xbb\xbf" + videos.encode(), b"\xef\xbb\xbf" + queries.encode(), relevance))
    news, dance = benchmark.partitions
    assert (news.name, news.database) == ("news", ("a,1", "ü 素材"))
    assert (dance.name, dance.database) == ("dance", ("[z]/{y}.mp4",))
    (query,) = news.queries
    assert (query.id, query.video_id, query.text, query.mask) == ("1", "a,1", None, "masks/1.png")
    assert query.tags == ("+in door", "-crowd")
    assert (query.topic, query.annotated_split) == ('news/t "x"', "train")
    (query,) = dance.queries
    assert (query.id, query.video_id, query.text) == ("q=2", "7", 'say "hi"\n')
    assert (query.topic, query.annotated_split) == ("dance/own", "val")
    assert news.video_topics == {"a,1": {'news/t "x"'}, "ü 素材": {'news/t "x"'}}
    assert dance.video_topics == {"[z]/{y}.mp4": {"dance/own"}}
    assert video_files(write(videos, queries, relevance)) == {
        "a,1": "one, two.mp4",
        "ü 素材": None,
        "[z]/{y}.mp4": None,
        "7": None,
    }
    (warning,) = benchmark.warnings
    assert "tags that stand twice for one query" in warning


def test_all_faults_are_in_one_message_with_file_line_and_id(write: Write) -> None:
    videos = "video,gallery,split\na,,\nb,perhaps,\n,,train\na,,training\n"
    queries = "\n".join(
        [
            '{"id": "q1", "video": "a"}',
            "",
            '{"id": "q1", "video": "b"}',
            '{"id": true, "video": "a"}',
            '{"video": "a"}',
            '{"id": "q2", "video": "A"}',
            '{"id": "q3", "video": "a", "text": 1.5, "tags": "+x"}',
            '{"id": "q4", "video": "a", "video": "b"}',
            "[1]",
            "{",
            '{"id": "q5", "video": "b", "split": "dev", "partition": "news"}',
            '{"id": "\\ud800", "video": "b"}',
            '{"id": "q6", "video": "b", "text": "half \\udc00"}',
        ]
    )
    relevance = "query,video,label\nq1,b,2\nq1,b,1\nq1,b,0\nq9,b,1\nq1,x\nq1,,1\n"
    message = refusal(write(videos, queries, relevance))
    for part in (
        "videos.csv: 'gallery' must be yes or no (1 or 0) (1): line 3: 'perhaps'",
        "videos.csv: 'video' is blank or no valid text (1): line 4 ('')",
        "videos.csv: 'split' must be train, val, test or blank (1): line 5: 'training'",
        "videos.csv: videos that stand twice (1): line 5: 'a'",
        "queries.jsonl: query ids that stand twice (1): line 3: 'q1'",
        "queries.jsonl: 'id' must be a text or a whole number (2): line 4 (true), line 5 (missing)",
        "queries.jsonl: videos that are not in videos.csv (1): line 6: 'A' (videos.csv has 'a')",
        "queries.jsonl: 'text' must be a text (1): line 7 (1.5)",
        "queries.jsonl: 'tags' must be a list of texts",
        "queries.jsonl: keys that stand twice in one object (1): line 8: 'video'",
        "queries.jsonl: lines that are no JSON object (2): line 9, line 10 (",
        "queries.jsonl: 'split' must be train, val, test or blank (1): line 11: 'dev'",
        "queries.jsonl: partitions that videos.csv does not have (it has all) (1): line 11: 'news'",
        r"queries.jsonl: 'id' is blank or no valid text (1): line 12 ('\ud800')",
        "queries.jsonl: 'text' is no valid text (1): line 13",
        "relevance.csv: 'label' must be 1 (match), 0 (no match) or -1 (not judged)",
        "relevance.csv: pairs with two different labels or levels (1): line 4: 'q1', 'b'",
        "relevance.csv: ids of 'query' that are not in queries.jsonl (1): line 5: 'q9'",
        "relevance.csv: lines without exactly 3 cells (1): line 6 has 2",
        "relevance.csv: 'video' is blank or no valid text (1): line 7 ('')",
    ):
        assert part in message, (part, message)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"videos": "vidoe\na\n"}, "videos.csv: has no column 'video' (it has vidoe); did you mean 'vidoe'?"),
        ({"videos": "video;topic\na;1\n"}, "videos.csv: columns are separated by ';'; separate them by commas"),
        ({"videos": "video,video\na,a\n"}, "videos.csv: has two columns 'video'"),
        ({"videos": "video\n"}, "videos.csv: is empty"),
        ({"videos": ""}, "videos.csv: is empty"),
        ({"videos": b"video\n\xff\n"}, "videos.csv: is not UTF-8 text: invalid start byte at byte 6"),
        ({"videos": 'video\n"a\n'}, "videos.csv: cannot be read as CSV at line 2: unexpected end of data"),
        ({"videos": "video,partition\na,x\nb,\nc,x\nd,x\n"}, "videos without a partition, in a file that has this"),
        ({"videos": "video,partition\na,x/y\nb,x\nc,x\nd,x\n"}, "nor have a / in its name (1): line 2: x/y"),
        ({"videos": "video,partition\na,mean\nb,mean\nc,mean\n"}, "a partition cannot be called 'mean'"),
        ({"queries": ""}, "queries.jsonl: is empty"),
        ({"queries": '[{"id": "q1", "video": "a"}]'}, "queries.jsonl: is a JSON array; put one object on each line"),
        ({"relevance": "query,video,label\n"}, "relevance.csv: is empty"),
        ({"relevance": "query,video,label\nq1,b,0\n"}, "relevance.csv: no pair has label 1, so nothing can be found"),
        (
            {"relevance": "query,video,lable\nq1,b,1\n"},
            "has no column 'label' (it has query, video, lable); did you mean",
        ),
        ({"relevance": "query,video,label\nq1,bb,\n"}, "(1): line 2: ''"),
        (
            {"videos": "video\nlong name 1\na\nb\nc\n", "relevance": "query,video,label\nq1,long nam 1,1\n"},
            "'long name 1'?",
        ),
        ({"relevance": None}, "relevance.csv: is missing"),
        ({"videos": "video,gallery\na,\nb,no\nc,\n"}, "labels of videos that the query does not search"),
    ],
)
def test_one_fault(files: dict[str, Any], expected: str, write: Write) -> None:
    assert expected in refusal(write(**files))


def test_a_broken_line_is_one_fault_and_what_refers_to_it_none(write: Write) -> None:
    queries = '{"id": "q1", "video": "a"}\n{"id": "q_news_1", "video": "a"\n{"id": "q3", "video": "v9", "txt": "x"}\n'
    relevance = "query,video,label\nq1,b,1\nq_news_1,c,1\nq3,c,1\nq1,d,maybe\nq1\nq7,b,1\n"
    assert refusal(write(VIDEOS + "x,y\n", queries, relevance)).splitlines()[1:] == [
        "  videos.csv: lines without exactly 1 cells (1): line 6 has 2",
        "  queries.jsonl: lines that are no JSON object (1): line 2 (Expecting ',' delimiter at column 32)",
        "  relevance.csv: lines without exactly 3 cells (1): line 6 has 1",
        "  queries.jsonl: videos that are not in videos.csv (1): line 3: 'v9'",
        "  relevance.csv: 'label' must be 1 (match), 0 (no match) or -1 (not judged); kinds of matches go into 'level' "
        "(1): line 5: 'maybe'",
        "  relevance.csv: ids of 'query' that are not in queries.jsonl (1): line 7: 'q7'",  # numbered alike: no hint
        "besides, these are odd (but have a meaning):",
        "  queries.jsonl: keys that are not read (1): txt (line 3); did you mean 'text'?",
    ]


def test_labels_before_a_broken_quote_are_checked(write: Write) -> None:
    message = refusal(write(relevance='query,video,label\nq1,b,maybe\nq1,c,"1\n'))
    assert "cannot be read as CSV at line 3" in message
    assert "line 2: 'maybe'" in message


def test_stray_blanks_are_told(write: Write) -> None:
    queries = QUERIES.replace('"q2"', '" q2 "')
    message = refusal(write(queries=queries))
    assert "line 3: 'q2' (queries.jsonl has ' q2 '; mind the blanks)" in message
    (warning,) = read_table(write(queries=queries, relevance=RELEVANCE.replace("q2", " q2 "))).warnings
    assert warning == "queries.jsonl: blanks at an end of 'id' (they are part of the id) (1): line 2: ' q2 '"


@pytest.mark.parametrize("key", ["text", "mask"])
def test_a_number_is_no_text(key: str, write: Write) -> None:
    message = refusal(write(queries=QUERIES.replace('"text": "red"', f'"{key}": 5')))
    assert f"queries.jsonl: '{key}' must be a text (1): line 1 (5)" in message


def test_a_file_under_another_name_is_suggested(write: Write) -> None:
    folder = write(queries=None)
    (folder / "query.jsonl").write_text(QUERIES)
    message = refusal(folder)
    assert "queries.jsonl: is missing; did you mean 'query.jsonl'?" in message
    assert "ids of 'query'" not in message  # nothing follows from a file that is not there
    assert "is not a folder" in refusal(folder / "query.jsonl")


def test_ids_in_another_unicode_form_are_named_as_such(write: Write) -> None:
    message = refusal(write(videos="video\na\nu\u0308\nc\n", relevance="query,video,label\nq1,\u00fc,1\n"))
    assert "(videos.csv has the same letters in another Unicode form)" in message


def test_oddities_are_warnings_and_have_a_meaning(write: Write) -> None:
    benchmark = read_table(
        write(
            videos="video,partition,topik\na,x,\nb,x,\nc,x,\nd,y,\ne,z,\nf,z,\n",
            queries=QUERIES
            + '{"id": "q3", "video": "b", "txt": "lost", "split": "test"}\n{"id": "q4", "video": "e"}\n',
            relevance=RELEVANCE + "q1,b,1\nq4,f,0\n",
        )
    )
    text = "\n".join(benchmark.warnings)
    assert "videos.csv: columns that are not read (1): topik; did you mean 'topic'?" in text
    assert "queries.jsonl: keys that are not read (1): txt (line 3)" in text
    assert "relevance.csv: pairs that stand twice (they count once) (1): line 5: 'q1', 'b'" in text
    assert "queries without a match (left out of mAP; their videos are non-matches in uAP) (2): q3, q4" in text
    assert "queries without a split, while others have one (so splits go by topic) (3): q1, q2, q4" in text
    assert "partitions without a query that has a match (left out) (2): y, z" in text
    assert [partition.name for partition in benchmark.partitions] == ["x"]
    judgement = benchmark.judgement_by_query["q3"]
    assert (judgement.counted, dict(judgement.positives)) == (False, {})
    assert apply_splits(benchmark, None).protocol["split_source"] == "topic"


def test_given_splits_are_used_where_they_are_complete(write: Write) -> None:
    videos = "video,split\na,train\nb,\nc,\nd,test\n"
    queries = QUERIES + '{"id": "q3", "video": "d"}\n{"id": "q4", "video": "a", "split": "val"}\n'
    relevance = RELEVANCE + "q3,b,1\nq4,d,1\n"
    benchmark = apply_splits(read_table(write(videos, queries, relevance)), None)
    assert benchmark.protocol["split_source"] == "annotation"
    assert [query.split for query in benchmark.queries] == ["train", "train", "test", "val"]


def test_topics_follow_shared_matches_and_shared_videos(write: Write) -> None:
    videos = "video,topic\n" + "".join(f"v{n},\n" for n in range(8)) + "v8,given\n"
    queries = lines(
        {"id": "v3", "video": "v0"},  # an id that is the name of another video
        {"id": "q1", "video": "v1"},
        {"id": "q2", "video": "v2"},
        {"id": "q3", "video": "v3"},
        {"id": "q4", "video": "v4"},
        {"id": "q5", "video": "v4"},
        {"id": "q6", "video": "v8"},
    )
    relevance = "query,video,label\nv3,v5,1\nq1,v5,1\nq2,v1,1\nq3,v6,1\nq4,v7,1\nq5,v6,1\nq6,v7,0\nq6,v2,1\n"
    topics = {query.id: query.topic for query in read_table(write(videos, queries, relevance)).queries}
    assert topics["v3"] == topics["q1"] == topics["q2"] == "all/given"  # by v5, v1 and, with q6, v2
    assert topics["q3"] == topics["q5"] == topics["q4"] == "all/q3"  # by v6 and v4; the id v3 is not the video v3
    assert topics["q6"] == "all/given"


def test_a_video_shown_by_queries_of_two_splits_leaks(write: Write) -> None:
    queries = '{"id": "q1", "video": "a", "split": "train"}\n{"id": "q2", "video": "a", "split": "test"}\n'
    queries += '{"id": "q3", "video": "d", "split": "train"}\n'
    benchmark = apply_splits(read_table(write(queries=queries, relevance=RELEVANCE + "q3,c,1\nq3,b,1\n")), "annotation")
    report = find_leaks(benchmark)
    assert [(leak.query, leak.video, leak.held_query) for leak in report.leaks] == [
        ("q1", "a", "q2"),
        ("q3", "c", "q2"),
    ]
    assert report.dropped_queries == ("q1",)
    assert report.dropped_positives == (("q3", "c"),)
    training = drop_leaks(benchmark, report)
    assert [query.id for query in training.queries] == ["q2", "q3"]
    assert training.relevance("q3", "c") == -1


def plain(benchmark: Benchmark) -> list[Any]:
    return [
        (part.name, set(part.database), [replace(query, video=None) for query in part.queries], part.judgements)
        for part in benchmark.partitions
    ]


def test_a_benchmark_written_as_a_table_is_the_same_benchmark(tmp_path: Path) -> None:
    annotations, _ = make_toy(tmp_path)
    original = read_muvr(annotations)
    assert plain(read_table(write_table(tmp_path / "table", original))) == plain(original)

"""The MUVR reader: official semantics on the golden data, and every kind of fault."""

from __future__ import annotations

import json
import shutil

import pytest

from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.errors import DataError


def video(number, name, query=0, **more):
    return {"id": number, "frames_path": f"frames/p/{name}", "is_query": query, **more}


def lists(number, **relations):
    return {"query_id": number, "rel_lists": {name: {"id_list": ids} for name, ids in relations.items()}}


def small():
    """One partition: queries q1, q2; videos a, b, c, d; e is in no list."""
    return {
        "videos": [video(1, "q1", 1), video(2, "q2", 1), *(video(10 + i, name) for i, name in enumerate("abcde"))],
        "queries_en": [
            {"id": 1, "frames_path": "frames/p/q1", "prompt_en": "one", "split": "train"},
            {"id": 2, "frames_path": "frames/p/q2", "prompt_en": "two", "split": "test"},
        ],
        "query_tags": {"1": ["night", "crowd"]},
        "query_rel_lists": [
            lists(1, copy=[10], event=[11], pos_all=[10, 11], independent=[12], hard_independent=[13]),
            lists(2, pos_all=[12], independent=[1]),
        ],
        "query_tag_lists": [{"query_id": 1, "tag_lists": {"+night": {"id_list": [10]}}}],
    }


def write(root, content, folder="news"):
    (root / folder).mkdir(parents=True, exist_ok=True)
    for name, value in content.items():
        text = value if isinstance(value, str) else json.dumps(value)
        (root / folder / f"{name}.json").write_text(text)
    return root


def test_reads_what_the_files_say(tmp_path):
    benchmark = read_muvr(write(tmp_path, small()))
    part = benchmark["news"]
    assert part.query_ids == ("news/q1", "news/q2")
    first, second = part.queries
    assert (first.text, first.tags, first.annotated_split, first.split) == ("one", ("night", "crowd"), "train", None)
    assert (second.tags, second.topic) == ((), "news/q2")
    assert part.database == ("news/q1", "news/a", "news/b", "news/c", "news/d")
    judged = benchmark.judgement_by_query["news/q1"]
    assert judged.positives == {"news/a": "copy", "news/b": "event"}
    assert judged.negatives == {"news/c", "news/d"}
    assert judged.hard_negatives == {"news/d"}
    assert benchmark.judgement_by_query["news/q2"].positives == {"news/c": "match"}
    assert benchmark.warnings == ()
    assert benchmark.protocol == {"split": "all", "gallery": "full", "split_source": "none"}


def test_golden_annotations(shared):
    root = shared / "golden" / "muvr_small" / "annotations"
    benchmark = read_muvr(root)
    assert [part.name for part in benchmark.partitions] == ["news", "others", "instance", "region", "dance"]
    uncounted = [row.query for row in benchmark.judgements if not row.counted]
    assert [query.split("/")[0] for query in uncounted] == ["instance"]
    assert [row.query.split("/")[0] for row in benchmark.judgements if row.counted and not row.positives] == ["region"]
    assert [row.query.split("/")[0] for row in benchmark.judgements if row.query in row.positives] == ["dance"]
    assert {level for row in benchmark.judgements for level in row.positives.values()} >= {"copy", "event", "scene"}
    text = "\n".join(benchmark.warnings)
    for part in ("news", "others", "instance", "region", "dance"):
        assert f"{part}/queries_en.json: queries that videos.json does not flag" in text
        assert f"{part}/videos.json: flagged as query but not in queries_en.json" in text
    assert "instance/query_rel_lists.json: queries without a 'pos_all' list" in text
    assert "dance/query_rel_lists.json: queries that are their own positives" in text
    assert "region/query_rel_lists.json: empty lists" in text
    assert all(query.text for query in benchmark.queries)
    only = read_muvr(root, partitions=["dance", "animal"])
    assert [part.name for part in only.partitions] == ["instance", "dance"]


@pytest.mark.parametrize("level", [".", "annotations", "annotations/retrieval", "retrieval"])
def test_both_layouts_from_any_level_and_old_names(tmp_path, level):
    inner = tmp_path / level
    for folder in ("geng", "animal", "zoo", "dance"):
        write(inner, small(), folder)
    (inner / "QA" / "annotations").mkdir(parents=True)
    (inner / "notes").mkdir()
    (inner / ".git").mkdir()
    benchmark = read_muvr(tmp_path)
    assert [part.name for part in benchmark.partitions] == ["others", "instance", "dance", "zoo"]
    assert benchmark["others"].query_ids[0] == "others/q1"
    assert [line.split(": ", 1)[1] for line in benchmark.warnings] == [
        "folders without annotation files skipped (1): notes"
    ]
    assert read_muvr(inner).partitions == benchmark.partitions


def change(path, value):
    """A change of one place in the small annotation, by a path like ("videos", 0, "id")."""

    def apply(content):
        place = content
        for key in path[:-1]:
            place = place[key]
        if value is None:
            del place[path[-1]]
        elif isinstance(place, list) and path[-1] == len(place):
            place.append(value)
        else:
            place[path[-1]] = value

    return apply


RELATIONS = ("query_rel_lists", 0, "rel_lists")
ERRORS = {
    "unknown id in a list": (
        change((*RELATIONS, "pos_all", "id_list"), [10, 99]),
        "news/query_rel_lists.json: ids that are not in videos.json (1): 99 of query 1 'pos_all'",
    ),
    "id of the wrong type in a list": (change((*RELATIONS, "copy", "id_list"), ["10"]), "'10' of query 1 'copy'"),
    "unknown id in a tag list": (
        change(("query_tag_lists", 0, "tag_lists", "+night", "id_list"), [98]),
        "news/query_tag_lists.json: ids that are not in videos.json (1): 98 of query 1 '+night'",
    ),
    "list that is none": (
        change((*RELATIONS, "pos_all"), [10]),
        "lists must look like {'id_list': [ids]} (1): query 1",
    ),
    "list of objects": (change((*RELATIONS, "pos_all", "id_list"), [{}]), "lists must look like"),
    "rel_lists missing": (change(RELATIONS, None), "'rel_lists' must be an object (1): that of query 1 is missing"),
    "query_id missing": (
        change(("query_rel_lists", 0, "query_id"), None),
        "news/query_rel_lists.json: 'query_id' must be a number or a string (1): in entry 0 it is missing",
    ),
    "id of a video is an array": (change(("videos", 3, "id"), []), "in entry 3 it is an array"),
    "entry is no object": (change(("videos", 3), 7), "entries that are not objects (1): entry 3 is a number"),
    "is_query missing": (change(("videos", 3, "is_query"), None), "'is_query' must be 0 or 1 (1): id 11 has None"),
    "no frames_path": (
        change(("videos", 3, "frames_path"), ""),
        "'frames_path' must end with the video's id (1): id 11",
    ),
    "frames_path is a number": (change(("videos", 3, "frames_path"), 5), "'frames_path' must be a string"),
    "one id for two videos": (change(("videos", 7), video(10, "z")), "one id for two videos (1): 10: news/a, news/z"),
    "query twice": (change(("videos", 7), video(1, "q1", 1)), "query entries that stand twice"),
    "query under two ids": (change(("videos", 7), video(70, "q1")), "query entries that stand twice"),
    "text is a number": (change(("queries_en", 0, "prompt_en"), 4), "'prompt_en' must be a string (1): that of id 1"),
    "split is a number": (change(("queries_en", 0, "split"), 4), "'split' must be a string (1): that of id 1"),
    "topic is an array": (change(("queries_en", 0, "topic_id"), [1]), "'topic_id' must be a number or a string"),
    "tags are a string": (change(("query_tags", "1"), "night"), "tags must be an array of strings (1): query 1"),
    "videos is an object": (change(("videos",), {}), "news/videos.json: must hold a JSON array, not an object"),
    "query_tags is an array": (change(("query_tags",), []), "must hold a JSON object, not an array"),
    "not JSON": (
        change(("videos",), '[{"id": 1},\n oops]'),
        "news/videos.json: not JSON: Expecting value at line 2 column 2",
    ),
    "no query": (change(("queries_en",), []), "news/queries_en.json: no query"),
    "files missing": (change(("query_tags",), None), "news: missing query_tags.json"),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_name_file_and_id(tmp_path, kind):
    content = small()
    apply, message = ERRORS[kind]
    apply(content)
    with pytest.raises(DataError) as raised:
        read_muvr(write(tmp_path, content))
    assert message in str(raised.value)
    assert str(tmp_path) in str(raised.value)


WARNINGS = {
    "list of an unknown query": (
        change(("query_rel_lists", 2), lists(77, pos_all=[98])),
        "news/query_rel_lists.json: lists of unknown queries skipped (1): 77",
    ),
    "empty list": (change((*RELATIONS, "event", "id_list"), []), "empty lists (1): query 1 'event'"),
    "duplicate in a list": (
        change((*RELATIONS, "pos_all", "id_list"), [10, 10]),
        "lists that hold an id twice (it counts once) (1): query 1 'pos_all'",
    ),
    "two lists": (
        change(("query_rel_lists", 2), lists(1, copy=[11])),
        "two lists of one name for one query (the last counts) (1): query 1 'copy'",
    ),
    "video twice": (change(("videos", 7), video(10, "a")), "videos that stand twice (they count once) (1): news/a"),
    "flagged only": (
        change(("videos", 7), video(3, "q3", 1)),
        "flagged as query but not in queries_en.json, skipped (1): 3",
    ),
    "described only": (
        change(("videos", 1, "is_query"), 0),
        "queries that videos.json does not flag as such skipped (1): 2",
    ),
    "unknown query": (
        change(("queries_en", 2), {"id": 55, "prompt_en": "x"}),
        "news/queries_en.json: queries that are not in videos.json skipped (1): 55",
    ),
    "query twice": (
        change(("queries_en", 2), {"id": 2, "prompt_en": "x"}),
        "news/queries_en.json: queries that stand twice (the last entry counts) (1): 2",
    ),
    "no text": (change(("queries_en", 0, "prompt_en"), " "), "queries without a text (1): news/q1"),
    "no positives list": (change((*RELATIONS, "pos_all"), None), "queries without a 'pos_all' list"),
    "own positive": (change((*RELATIONS, "pos_all", "id_list"), [1, 10, 11]), "their own positives"),
    "finer beyond": (change((*RELATIONS, "pos_all", "id_list"), [10]), "goes beyond 'pos_all'"),
    "match and independent": (
        change((*RELATIONS, "independent", "id_list"), [10]),
        "both in 'pos_all' and independent",
    ),
    "tags of nobody": (change(("query_tags", "9"), ["x"]), "tags of unknown queries skipped (1): 9"),
    "path differs": (change(("queries_en", 0, "frames_path"), "frames/p/zz"), "'frames_path' differs"),
    "key twice": (change(("query_tags",), '{"1": ["a"], "1": ["b"]}'), "a key stands twice in one object"),
}


@pytest.mark.parametrize("kind", WARNINGS)
def test_oddities_with_a_defined_meaning_are_warnings(tmp_path, kind):
    content = small()
    apply, message = WARNINGS[kind]
    apply(content)
    benchmark = read_muvr(write(tmp_path, content))
    assert any(message in line for line in benchmark.warnings), benchmark.warnings
    assert benchmark.queries


def test_what_the_oddities_mean(tmp_path):
    content = small()
    content["videos"].append(video(3, "q3", 1))
    content["query_rel_lists"] = [
        lists(1, pos_all=[10]),
        lists(1, pos_all=[1, 11, 11], copy=[12]),
        lists(2, independent=[13]),
    ]
    benchmark = read_muvr(write(tmp_path, content))
    first, second = benchmark.judgements
    assert first.positives == {"news/q1": "match", "news/b": "match"}
    assert first.negatives == {"news/c"}
    assert (second.counted, second.positives, second.negatives) == (False, {}, {"news/d"})
    assert benchmark["news"].database == ("news/q1", "news/b", "news/c", "news/d")


def test_all_faults_come_at_once(tmp_path):
    broken = small()
    broken["query_rel_lists"][0]["rel_lists"]["copy"]["id_list"] = [98, 99]
    broken["videos"][3]["is_query"] = "no"
    write(tmp_path, broken, "news")
    write(tmp_path, small() | {"videos": "{"}, "dance")
    write(tmp_path, small(), "region")
    (tmp_path / "region" / "videos.json").unlink()
    (tmp_path / "region" / "query_tags.json").unlink()
    with pytest.raises(DataError) as raised:
        read_muvr(tmp_path)
    for part in (
        "98 of query 1 'copy', 99 of query 1 'copy'",
        "id 11 has 'no'",
        "dance/videos.json: not JSON",
        "region: missing videos.json, query_tags.json",
    ):
        assert part in str(raised.value)


def test_folders_that_are_not_there(tmp_path):
    with pytest.raises(DataError, match="is not a folder"):
        read_muvr(tmp_path / "nowhere")
    with pytest.raises(DataError, match="has no partition folder"):
        read_muvr(tmp_path)
    write(tmp_path, small())
    with pytest.raises(DataError, match="no folder for partition others, zoo; it has news"):
        read_muvr(tmp_path, partitions=["geng", "news", "zoo"])
    with pytest.raises(DataError, match="is itself one partition: give its parent"):
        read_muvr(tmp_path / "news")
    shutil.copytree(tmp_path / "news", tmp_path / "geng")
    shutil.copytree(tmp_path / "news", tmp_path / "others")
    with pytest.raises(DataError, match="geng and others are both partition others"):
        read_muvr(tmp_path)


def test_not_utf8_and_byte_order_mark(tmp_path):
    write(tmp_path, small())
    path = tmp_path / "news" / "query_tags.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_muvr(tmp_path).queries[0].tags == ("night", "crowd")
    path.write_bytes(b'{"1": ["\xff"]}')
    with pytest.raises(DataError, match=r"news/query_tags.json: not UTF-8 text: .* at byte 8"):
        read_muvr(tmp_path)

"""IV-Bench's question file: what it holds, its faults, and an order of options that any program finds again."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.benchmarks.iv_bench import (
    BLANK,
    GRANULARITIES,
    IN_DISTRACTORS,
    LOOSELY,
    TASKS,
    TWICE,
    IvBench,
    IvQuestion,
    option_key,
    read_iv_bench,
    shuffled_options,
)
from muvr_train.errors import ConfigError, DataError

COUNTS = {
    "Keyframe extraction": 231,
    "Constrained OCR": 229,
    "Counting": 221,
    "Existence": 147,
    "Detailed Events": 145,
    "Instruction Understanding": 145,
    "NLI": 143,
    "Spatial relationship": 123,
    "Space-time computing": 112,
    "Attribute Change": 73,
    "Reverse Existence": 59,
    "Temporal Reasoning": 42,
    "Summary": 16,
}


@pytest.fixture(scope="module")
def released(shared: Path) -> IvBench:
    return read_iv_bench(shared / "data" / "iv_bench" / "test_data.jsonl")


def test_the_released_file(released: IvBench, shared: Path) -> None:
    questions = released.questions
    assert len(questions) == len({item.id for item in questions}) == 1686
    assert len({item.video_id for item in questions}) == 747
    assert len({item.image_name for item in questions}) == 1680
    assert Counter(item.task for item in questions) == COUNTS
    assert set(TASKS) == set(COUNTS)
    assert Counter(item.group for item in questions) == {"perception": 1077, "reasoning": 609}
    assert Counter(item.granularity for item in questions) == dict(zip(GRANULARITIES, (394, 705, 587), strict=True))
    assert {(item.file_task, item.task) for item in questions if item.file_task != item.task} == {
        ("Details Event", "Detailed Events"),
        ("Instruction manual", "Instruction Understanding"),
    }
    assert sum(len(item.distractors) == 9 for item in questions) == 1597
    first = questions[0]
    assert (first.id, first.image_name, first.answer) == (
        "PDV4YauFV5c/0",
        "PDV4YauFV5c_0_image.png",
        "first from the left",
    )
    assert read_iv_bench(shared / "data" / "iv_bench") == released


def test_faults_of_the_released_file(released: IvBench) -> None:
    assert {name: len(ids) for name, ids in released.faults.items()} == {
        IN_DISTRACTORS: 21,
        TWICE: 64,
        IN_DISTRACTORS + LOOSELY: 29,
        TWICE + LOOSELY: 78,
        BLANK: 89,
    }
    by_id = {item.id: item for item in released.questions}
    assert all(by_id[name].answer in by_id[name].distractors for name in released.faults[IN_DISTRACTORS])
    assert len(released.warnings) == 5
    assert released.warnings[0].startswith("21 questions have the answer among the distractors: NahGvhCahSk/0, ")


def test_chance_of_the_released_file(released: IvBench) -> None:
    sizes = [len(item.distractors) + 1 for item in released.questions]
    assert sum(1 / size for size in sizes) / len(sizes) == pytest.approx(0.103, abs=5e-4)


def question(answer: str = "yes", distractors: tuple[str, ...] = ("no", "maybe"), name: str = "v/0") -> IvQuestion:
    return IvQuestion(name, "v", "i.png", "q?", "NLI", "NLI", "perception", "Video Clip", answer, distractors)


def test_the_order_is_what_the_docstring_says() -> None:
    item = question("b", ("a", "c", "a"))
    found, right = shuffled_options(item, 7, "keep")
    keys = {}
    for text, number in (("b", 0), ("a", 0), ("c", 0), ("a", 1)):
        keys[text, number] = hashlib.sha256(json.dumps([7, "v/0", text, number]).encode()).hexdigest()
    expected = tuple(text for text, _ in sorted(keys, key=keys.__getitem__))
    assert found == expected
    assert found[right] == "b"


def test_the_order_of_a_released_question_is_the_same_in_another_process(released: IvBench, shared: Path) -> None:
    program = (
        "import sys, random; random.seed(1); from pathlib import Path\n"
        "from muvr_train.benchmarks.iv_bench import read_iv_bench, shuffled_options\n"
        "bench = read_iv_bench(Path(sys.argv[1]))\n"
        "print([shuffled_options(item, 3) for item in bench.questions[::-1]][::-1] == eval(sys.stdin.read()))"
    )
    ours = [shuffled_options(item, 3) for item in released.questions]
    run = subprocess.run(
        [sys.executable, "-c", program, str(shared / "data" / "iv_bench")],
        input=repr(ours),
        env={"PYTHONHASHSEED": "5"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "True", run.stderr
    assert shuffled_options(released.questions[0], 0)[1] == 5  # as on every machine


def test_the_right_one_stands_everywhere(released: IvBench) -> None:
    places: Counter[int] = Counter()
    for seed in range(5):
        orders = [shuffled_options(item, seed) for item in released.questions]
        assert all(
            options[right] == item.answer for item, (options, right) in zip(released.questions, orders, strict=True)
        )
        places += Counter(right for _, right in orders)
    assert min(places[place] for place in range(9)) > 0.085 * 5 * 1686
    assert len({tuple(shuffled_options(released.questions[0], seed)[0]) for seed in range(20)}) > 15


def test_duplicates() -> None:
    item = question(" Two", ("one", "two ", "ONE", "three", "three", "two "))
    options, right = shuffled_options(item, 0)
    assert sorted(options) == [" Two", "one", "three"]
    assert options[right] == " Two"
    kept, right = shuffled_options(item, 0, "keep")
    assert sorted(kept) == sorted([" Two", "one", "two ", "ONE", "three", "three", "two "])
    assert kept[right] == " Two"
    assert [option_key(text) for text in kept].count(option_key(item.answer)) == 3
    with pytest.raises(ConfigError, match="duplicates must be drop or keep, got 'some'"):
        shuffled_options(item, 0, "some")  # type: ignore[arg-type]


@given(st.text(), st.lists(st.text(), min_size=1, max_size=12), st.integers(), st.randoms())
def test_any_options(answer: str, others: list[str], seed: int, rng: random.Random) -> None:
    item = question(answer, tuple(others))
    options, right = shuffled_options(item, seed, "keep")
    assert sorted(options) == sorted([answer, *others])
    assert options[right] == answer
    mixed = others.copy()
    rng.shuffle(mixed)
    assert shuffled_options(question(answer, tuple(mixed)), seed, "keep")[0] == options
    dropped, right = shuffled_options(item, seed)
    assert dropped[right] == answer
    assert len({option_key(text) for text in dropped}) == len(dropped)
    assert {option_key(text) for text in dropped} == {option_key(text) for text in options}


ENTRY: dict[str, Any] = {
    "data_id": 0,
    "image_name": "é.png",
    "question": "?",
    "question_type": "NLI",
    "granularity": "whole  video",
    "answer": "b",
    "answer_location": "0:01",
    "distractors": ["a", "", " ", "c"],
}


def read(path: Path, *lines: Any) -> IvBench:
    file = path / "own.jsonl"
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return read_iv_bench(file)


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    more = {**ENTRY, "data_id": "x", "question_type": "details event", "granularity": "A minute"}
    paper = {**ENTRY, "data_id": 2, "question_type": "Instruction Understanding"}
    bench = read(tmp_path, {"日": [ENTRY, more]}, "", {"w": [ENTRY]}, {"日": [paper], "u": []})
    assert [item.id for item in bench.questions] == ["日/0", "日/x", "w/0", "日/2"]
    first, second, _, last = bench.questions
    assert (first.granularity, first.distractors, first.image_name) == ("Whole Video", ("a", "c"), "é.png")
    assert (second.task, second.granularity) == ("Detailed Events", "A Minute")
    assert (last.task, last.group, last.where.endswith("own.jsonl:4")) == (
        "Instruction Understanding",
        "reasoning",
        True,
    )
    assert bench.faults[BLANK] == ("日/0", "日/x", "w/0", "日/2")
    assert not bench.faults[TWICE]
    assert len(bench.warnings) == 1
    letters = [str(number) for number in range(25)]
    assert len(shuffled_options(read(tmp_path, {"v": [{**ENTRY, "distractors": letters}]}).questions[0], 0)[0]) == 26


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "own.jsonl:2 is not JSON"),
        ("[]", r"own.jsonl:2: a line is an object \{video id: \[questions\]\}"),
        ({"v": 3}, "own.jsonl:2: a line is an object"),
        ({" ": [ENTRY]}, "own.jsonl:2: a video id is empty"),
        ({"v": ["x"]}, "own.jsonl:2: a question of video v is no object: 'x'"),
        ({"v": [{**ENTRY, "data_id": None}]}, "own.jsonl:2: a question of video v needs a data_id .* got None"),
        ({"v": [{**ENTRY, "data_id": True}]}, "needs a data_id .* got True"),
        ({"v": [{**ENTRY, "answer": 3}]}, "own.jsonl:2: question v/0 needs answer, a text, got 3"),
        ({"v": [{**ENTRY, "answer": " "}]}, "question v/0 needs answer, a text, got ' '"),
        ({"v": [{key: value for key, value in ENTRY.items() if key != "question"}]}, "v/0 needs question, .* got None"),
        ({"v": [{**ENTRY, "image_name": None}]}, "v/0 needs image_name"),
        ({"v": [{**ENTRY, "granularity": 1}]}, "v/0 needs granularity"),
        ({"v": [{**ENTRY, "distractors": "ab"}]}, "v/0 needs distractors, a list of texts, got 'ab'"),
        ({"v": [{**ENTRY, "distractors": ["a", 2]}]}, r"v/0 needs distractors, a list of texts, got \['a', 2\]"),
        ({"v": [{**ENTRY, "distractors": []}]}, "v/0 has no option but the answer 'b'"),
        ({"v": [{**ENTRY, "distractors": ["B ", ""]}]}, "v/0 has no option but the answer 'b'"),
        (
            {"v": [{**ENTRY, "distractors": [str(n) for n in range(26)]}]},
            "v/0 has 27 options; there are letters for 26",
        ),
        (
            {"v": [{**ENTRY, "question_type": "Riddle"}]},
            "v/0 has the unknown question_type 'Riddle'; the tasks are .*NLI",
        ),
        ({"u": [ENTRY]}, r"own.jsonl:2: question u/0 stands in .*own.jsonl:1, too"),
    ],
)
def test_malformed_lines_are_named(tmp_path: Path, line: Any, says: str) -> None:
    with pytest.raises(DataError, match=says):
        read(tmp_path, {"u": [ENTRY]}, line)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"own\.jsonl holds no question"):
        read(tmp_path, "", {"v": []})
    with pytest.raises(DataError, match=r"nowhere\.jsonl cannot be read: No such file or directory$"):
        read_iv_bench(tmp_path / "nowhere.jsonl")
    with pytest.raises(DataError, match=r"the folder holds no test_data\.jsonl; give the file of the questions$"):
        read_iv_bench(tmp_path)
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff")
    with pytest.raises(DataError, match=r"bytes\.jsonl cannot be read"):
        read_iv_bench(tmp_path / "bytes.jsonl")

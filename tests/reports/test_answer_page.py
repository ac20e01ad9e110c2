"""The page of answers: every card, nothing run that an answer holds, pictures as far as there are any."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from muvr_train.benchmarks.published import PublishedRow
from muvr_train.demo.encode import write_video
from muvr_train.reports.answer_cards import choose_cards, facet_values, make_cards
from muvr_train.reports.answer_figures import rows_table
from muvr_train.reports.answer_page import AnswerLimits, write_answer_page
from muvr_train.reports.answer_pictures import keep_sheets, save_sheets, sheet_of
from muvr_train.rerank.types import Answer, Clip, Picture, Question, Visual
from muvr_train.rerank.visuals import Absent, Media
from tests.reports.answered import broken, by_key, failure, iv_question, qa_question, rerank_question, said, visual
from tests.reports.contents import NASTY, RTL
from tests.reports.test_page import Page, parsed

Key = tuple[str, str]
SCRIPT = "<script>alert(1)</script></pre></details><img src=x onerror=alert(2)>"
ROWS = [
    {
        "benchmark": "muvr_qa",
        "mode": "images_6f",
        "partition": "all",
        "metrics": {"accuracy": 0.65, "accuracy_se": 0.034, "reranking_score": 0.19, "parse_rate": 0.99},
        "counts": {"questions": 200},
        "timing": {"seconds_per_item": 1.25},
    }
]


def write(
    folder: Path,
    questions: Sequence[Question],
    answers: Mapping[Key, Answer] | None = None,
    verdicts: Mapping[Key, str | None] | None = None,
    **more: Any,
) -> Page:
    page = write_answer_page(folder, questions, verdicts or {}, answers or {}, ROWS, {"model": "m", "seed": 0}, **more)
    assert page == folder / "report.html"
    assert not list(folder.rglob("*.tmp"))
    return parsed(page.read_text(encoding="utf-8"))


def cards_of(page: Page) -> list[dict[str, str | None]]:
    return page.find("article")


def shown_files(page: Page) -> list[str]:
    return [str(image["src"]) for image in page.find("img")]


def four_outcomes() -> tuple[list[Question], dict[Key, Answer], dict[Key, str | None]]:
    questions = [iv_question(number) for number in range(5)]
    answers = [said(questions[0], "**B**"), said(questions[1], "A"), said(questions[2], "no idea")]
    answers.append(failure(questions[3], "500 from the server"))
    verdicts = dict(zip([(q.id, q.setting) for q in questions], ["B", "A", None, None], strict=False))
    return questions, dict(by_key(answers)), verdicts


def test_a_card_for_each_question_by_its_outcome(tmp_path: Path) -> None:
    questions, answers, verdicts = four_outcomes()
    page = write(tmp_path, questions, answers, verdicts)
    kinds = [str(card["class"]).split()[1] for card in cards_of(page)]
    assert kinds == ["correct", "wrong", "invalid", "failed", "failed"]
    assert facet_values(make_cards(questions, verdicts, answers)) == {
        "outcome": {"correct": 1, "wrong": 1, "invalid": 1, "failed": 1, "not asked": 1}
    }
    text = "".join(page.texts)
    for part in (
        "500 from the server",
        "no idea",
        "A. one ◂ chosen",
        "B. two ✓ right ◂ chosen",
        "right: B · read as A",
    ):
        assert part in text, part
    assert "<video: v0>\n<image: v0.png>\nHow many?\nA. one" in text


def test_the_questions_of_a_pair_stand_side_by_side_with_its_outcome() -> None:
    asked = [qa_question("q", "t1", "yes"), qa_question("q", "f1", "no"), qa_question("q", "x", "no", tag="")]
    asked += [qa_question("p", "f2", "no"), qa_question("p", "t2", "yes"), qa_question("q", "y", "yes", tag="")]
    said_yes = dict(by_key([said(question, "Yes") for question in asked[:5]]))
    cards = make_cards(asked, dict.fromkeys(said_yes, "yes"), said_yes)
    assert [[e.question.about["target"] for e in card.entries] for card in cards] == [
        ["t1", "f1"],
        ["y", "x"],
        ["t2", "f2"],
    ]
    assert [card.pair for card in cards] == ["yes, yes (0)", "not asked, yes (-2)", "yes, yes (0)"]
    assert facet_values(cards)["outcome"] == {"correct": 2, "wrong": 3, "not asked": 1}
    assert facet_values(cards)["tag"] == {"tagged": 2, "untagged": 1}


@pytest.mark.parametrize(
    ("match", "other", "pair"),
    [("yes", "no", "(+1)"), ("yes", "yes", "(0)"), ("no", "no", "(-1)"), ("no", "yes", "(-2)"), (None, "no", "(-1)")],
)
def test_what_a_pair_adds_to_the_reranking_score(match: str | None, other: str | None, pair: str) -> None:
    asked = [qa_question("q", "t", "yes"), qa_question("q", "f", "no")]
    verdicts = {(q.id, q.setting): verdict for q, verdict in zip(asked, (match, other), strict=True)}
    (card,) = make_cards(asked, verdicts, by_key([said(question, "...") for question in asked]))
    assert card.pair == f"{match or 'invalid'}, {other} {pair}"


def test_the_reranked_videos_of_a_query_share_a_card(tmp_path: Path) -> None:
    asked = [rerank_question("q", f"t{number}", "yes" if number == 2 else "no") for number in range(4)]
    page = write(tmp_path, asked)
    assert len(cards_of(page)) == 1
    assert len([e for e in page.find("div") if str(e.get("class")).startswith("entry ")]) == 4
    assert len(page.find("img")) == 1 + 4  # the query once


def test_options_with_the_text_of_the_right_one_are_right_too() -> None:
    question = iv_question(0, right=("B", "C"))
    answers = by_key([said(question, "C")])
    (card,) = make_cards([question], {(question.id, question.setting): "C"}, answers)
    assert card.outcome == "correct"


def test_nothing_that_a_file_or_model_says_becomes_markup(tmp_path: Path) -> None:
    bad = SCRIPT + NASTY
    question = iv_question(
        0, setting=bad, options={"A": bad, "B": "two", "C": RTL}, question=bad, task=bad, granularity=bad
    )
    asked = [question, qa_question(bad, "t", "yes", tag=bad), qa_question(bad, "f", "no", tag=bad)]
    asked.append(qa_question("q", "u", "yes", shown=broken("video", bad, "reason " + bad)))
    answers = [said(asked[0], bad * 9, tokens={bad: -0.1}, answerer=bad), failure(asked[1], bad)]
    meta = {"model": bad, "notes": [bad], "definitions": {bad: bad}, "config": {bad: bad}}
    row = {**ROWS[0], "mode": bad, "partition": bad}
    published = [PublishedRow(bad, "muvr_qa", "any", "all", {"accuracy": 0.5}, bad)]
    folder = tmp_path / "<b>"
    page = parsed(
        write_answer_page(folder, asked, {}, by_key(answers), [row], meta, published).read_text(encoding="utf-8")
    )
    assert len(page.find("script")) == 1
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    assert not page.find("i", "iframe", "object", "base", "link", "form")
    for image in page.find("img"):
        assert re.fullmatch(r"report_files/[0-9a-f]{20}\.jpg", str(image["src"]))
    text = "".join(page.texts)
    assert text.count(bad) > 20
    assert bad * 9 in text
    assert f"reason {bad}" in text


def test_only_the_script_of_the_page_may_run(tmp_path: Path) -> None:
    write(tmp_path, [iv_question(0)])
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert f"script-src &#39;sha256-{digest}&#39;" in policy[1] or f"script-src 'sha256-{digest}'" in policy[1]
    assert "default-src 'none'" in policy[1]
    assert "url(" not in text
    assert "@import" not in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text


def test_without_questions_there_is_a_page(tmp_path: Path) -> None:
    page = write(tmp_path, [])
    assert "No question was asked." in "".join(page.texts)
    assert not page.find("script", "article", "input")
    assert not (tmp_path / "report_files").exists()
    assert page.table("setting")[1] == ["images_6f", "all", "65.0 ± 3.4", "+0.19", "99.0", "1.25", "200"]


def test_answers_without_videos_have_no_pictures_and_the_page_says_so(tmp_path: Path) -> None:
    asked = [qa_question("q", "t", "yes", shown=broken("video", "t", "must not be loaded"))]
    page = write(tmp_path, asked, loads=False)
    text = "".join(page.texts)
    assert "There are no pictures: no video or image is at hand." in text
    assert "must not be loaded" not in text
    assert not page.find("img")
    assert not (tmp_path / "report_files").exists()


def test_without_any_file_the_page_does_not_say_so_at_every_card(tmp_path: Path) -> None:
    lost = Absent("video t: no folder of videos is given (data.videos)").visual("video", "t")
    bare = replace(qa_question("q", "t", "yes"), parts=("Same?", lost))
    text = "".join(write(tmp_path / "none", [bare]).texts)
    assert "no video or image is at hand" in text
    assert "no folder of videos" not in text
    text = "".join(write(tmp_path / "one", [bare, qa_question("q", "f", "no")]).texts)
    assert "no folder of videos" in text


def test_a_broken_video_says_why_and_the_others_are_shown(tmp_path: Path) -> None:
    asked = [qa_question("q", "t", "yes", shown=broken("video", "t", "t.mp4: moov atom not found"))]
    asked.append(qa_question("q", "f", "no"))
    page = write(tmp_path, asked)
    text = "".join(page.texts)
    assert "t.mp4: moov atom not found" in text
    assert "Of 4 images and videos 1 cannot be shown (their cards say why)." in text
    files = shown_files(page)
    assert len(files) == 2  # the query, the same for both, and one target
    assert {f"report_files/{path.name}" for path in (tmp_path / "report_files").iterdir()} == set(files)
    for image in page.find("img"):
        with Image.open(tmp_path / str(image["src"])) as opened:
            assert (str(opened.width), str(opened.height)) == (image["width"], image["height"])


def test_frames_of_real_videos(tmp_path: Path) -> None:
    colours = [(200, 20, 20), (20, 200, 20), (20, 20, 200)]
    videos = tmp_path / "videos"
    videos.mkdir()
    write_video(videos / "good.mp4", [Image.new("RGB", (160, 120), colours[i // 10]) for i in range(30)])
    (videos / "broken.mp4").write_bytes((videos / "good.mp4").read_bytes()[:200])
    media = Media.open(videos)
    asked = [qa_question("q", name, "yes", shown=media.video(name, 3)) for name in ("good", "broken", "lost")]
    page = write(tmp_path / "out", asked)
    text = "".join(page.texts)
    assert "broken.mp4" in text
    assert "video lost: no such file in data.videos" in text
    (own,) = [image for image in page.find("img") if image["alt"] == "video good"]
    sheet = np.asarray(Image.open(tmp_path / "out" / str(own["src"])).convert("RGB"), dtype=int)
    assert sheet.shape == (90, 3 * 120 + 4, 3)
    for place, colour in enumerate(colours):
        assert np.abs(sheet[45, 60 + 122 * place] - colour).max() < 40


def test_a_fault_of_a_program_is_not_hidden(tmp_path: Path) -> None:
    def load() -> Picture:
        raise ZeroDivisionError("a mistake")

    with pytest.raises(ZeroDivisionError, match="a mistake"):
        write(tmp_path, [qa_question("q", "t", "yes", shown=visual("image", "t", load=load))])


def test_a_second_page_uses_the_pictures_again_and_removes_stale_ones(tmp_path: Path) -> None:
    loads: list[str] = []

    def counting(name: str) -> Any:
        def load() -> Picture:
            loads.append(name)
            return Picture(np.full((20, 30, 3), len(name), np.uint8))

        return visual("image", name, load=load)

    asked = [qa_question("q", name, "yes", shown=counting(name)) for name in ("t", "uu")]
    first = set(shown_files(write(tmp_path, asked)))
    (tmp_path / "report_files" / ".half.1.tmp").write_bytes(b"")
    (tmp_path / "report_files" / "mine.txt").write_text("kept", encoding="utf-8")
    second = set(shown_files(write(tmp_path, asked[:1])))
    assert sorted(loads) == ["t", "uu"]
    assert second < first
    left = {path.name for path in (tmp_path / "report_files").iterdir()}
    assert left == {name.rpartition("/")[2] for name in second} | {"mine.txt"}


def asked_for(shown: Visual) -> Picture | Clip:
    """Load it as a run does."""
    part = shown.load()
    assert shown.loaded is not None
    shown.loaded(part)
    return part


def test_what_is_loaded_to_ask_is_not_loaded_for_the_page(tmp_path: Path) -> None:
    loads: list[str] = []

    def load() -> Clip:
        loads.append("t")
        return Clip((np.full((20, 30, 3), 9, np.uint8),) * 6)

    asked = [qa_question("q", "t", "yes", shown=visual("video", "t", load=load)), iv_question(1)]
    kept = keep_sheets(asked, tmp_path / "report_files", 10**6)
    assert [(q.id, q.about) for q in kept] == [(q.id, q.about) for q in asked]
    parts = [asked_for(part) for question in kept for part in question.parts if not isinstance(part, str)]
    assert [len(part.frames) if isinstance(part, Clip) else 1 for part in parts] == [1, 6, 32, 1]
    page = write(tmp_path, asked)
    assert loads == ["t"]
    assert len(shown_files(page)) == 4
    none = keep_sheets(asked, tmp_path / "full", -1)
    assert [asked_for(part) for part in none[1].parts if not isinstance(part, str)]
    assert not (tmp_path / "full").exists()


def test_pictures_are_bounded_and_those_of_mistakes_come_first(tmp_path: Path) -> None:
    asked = [iv_question(number) for number in range(4)]
    answers = by_key([said(question, "x") for question in asked])
    verdicts = {(q.id, q.setting): v for q, v in zip(asked, ("B", "B", "B", "C"), strict=True)}
    whole = write(tmp_path / "whole", asked, answers, verdicts)
    sizes = {name: (tmp_path / "whole" / name).stat().st_size for name in shown_files(whole)}
    room = sum(sizes[name] for name in shown_files(whole)[-2:])
    page = write(tmp_path / "part", asked, answers, verdicts, limits=AnswerLimits(picture_bytes=room))
    assert shown_files(page) == shown_files(whole)[-2:]
    assert "Of 8 images and videos 6 were left out to keep the page small." in "".join(page.texts)


def test_a_decoder_that_hangs_costs_only_its_time(tmp_path: Path) -> None:
    forever = threading.Event()

    def load() -> Clip:
        forever.wait()
        raise AssertionError

    try:
        slow = [qa_question("q", name, "yes", shown=visual("video", name, load=load)) for name in ("s", "t")]
        page = write(tmp_path, [*slow, qa_question("q", "f", "no")], limits=AnswerLimits(seconds=0.3))
        assert "were left out" in "".join(page.texts)
        assert len(cards_of(page)) == 1
    finally:
        forever.set()


def test_cards_are_bounded_each_setting_alike(tmp_path: Path) -> None:
    asked = [iv_question(number, setting=setting) for setting in ("a", "b") for number in range(4)]
    verdicts = {(q.id, q.setting): "B" if q.id == "v0/0" else "A" for q in asked}
    answers = by_key([said(question, "x") for question in asked])
    chosen = choose_cards(make_cards(asked, verdicts, answers), 4)
    assert [(c.entries[0].question.id, c.setting) for c in chosen] == [
        ("v1/0", "a"), ("v2/0", "a"), ("v1/0", "b"), ("v2/0", "b"),
    ]  # fmt: skip
    several = [rerank_question(query, f"t{number}", "no") for query in "pqr" for number in range(3)]
    assert [len(card.entries) for card in choose_cards(make_cards(several, {}, {}), 7)] == [3, 3]
    page = write(tmp_path, asked, answers, verdicts, limits=AnswerLimits(items=4))
    assert len(cards_of(page)) == 4
    assert "4 of 8 cards are here: those with failed, invalid and wrong answers first." in "".join(page.texts)


def test_a_page_without_cards_says_that_they_were_left_out(tmp_path: Path) -> None:
    page = write(tmp_path, [iv_question(0)], limits=AnswerLimits(items=0))
    assert "All 1 cards were left out." in "".join(page.texts)
    assert not page.find("article", "script")


def test_all_frames_stand_on_a_sheet_in_reading_order() -> None:
    frames = [np.full((90, 160, 3), 8 * number, np.uint8) for number in range(6)]
    sheet = np.asarray(Image.open(io.BytesIO(sheet_of(frames))).convert("L"), dtype=int)
    assert sheet.shape == (2 * 90 + 2, 3 * 160 + 4)
    for number in range(6):
        row, column = divmod(number, 3)
        assert abs(sheet[row * 92 + 45, column * 162 + 80] - 8 * number) <= 2
    small = np.asarray(Image.open(io.BytesIO(sheet_of([np.zeros((9, 5, 3), np.uint8)]))))
    assert small.shape == (9, 5, 3)  # never enlarged


def test_equal_pictures_share_a_file(tmp_path: Path) -> None:
    twins = [visual("video", "v", 6), visual("video", "v", 6), visual("video", "v", 12)]
    sheets = save_sheets(tmp_path, twins, 20, 10**7)
    files = [sheets[id(twin)].file for twin in twins]
    assert files[0] == files[1] != files[2]
    assert len(list(tmp_path.iterdir())) == 2


def test_long_answers_are_folded_and_log_probabilities_shown(tmp_path: Path) -> None:
    asked = [iv_question(0), iv_question(1), iv_question(2)]
    long = "Let me think. " * 4000
    answers = [said(asked[0], long), said(asked[1], "B", tokens={" B": float(np.log(0.75)), "A": -9999.0}, seconds=1.5)]
    answers.append(said(asked[2], ""))
    page = write(tmp_path, asked, by_key(answers), {(asked[1].id, asked[1].setting): "B"})
    text = "".join(page.texts)
    assert "36,000 characters more are in answers.jsonl" in text
    assert len(page.find("details")) >= 4
    assert "' B' 75 %" in re.sub(r"\s+", " ", text)
    assert "'A' 0 %" in re.sub(r"\s+", " ", text)
    assert "1.5 s" in text
    assert "The answer is empty." in text


def test_rows_of_any_benchmark_and_published_ones() -> None:
    rows: list[Mapping[str, Any]] = [
        {"benchmark": "b", "mode": "m", "partition": "all", "metrics": {"accuracy": None}, "counts": {}},
        {"benchmark": "b", "mode": "m", "partition": "news", "metrics": {"chance": 0.5, "true_positive_rate": 1.0}},
    ]
    table = rows_table(rows, [PublishedRow("GPT-4o", "b", "any", "all", {"accuracy": 0.65, "reranking_score": 0.19})])
    assert table.columns == ("accuracy", "reranking score", "chance")
    assert [[cell.text for cell in row.cells] for row in table.rows] == [
        ["-", "-", "-"],
        ["-", "-", "50.0"],
        ["65.0", "+0.19", "-"],
    ]
    assert table.rows[2].kind == "published"


def test_many_rows_are_folded(tmp_path: Path) -> None:
    rows = [{**ROWS[0], "partition": name, "mode": f"{n}f"} for n in range(30) for name in ("all", "news")]
    page = parsed(write_answer_page(tmp_path, [], {}, {}, rows, {"model": "m"}).read_text(encoding="utf-8"))
    assert [len(table) - 1 for table in page.tables] == [2, 2, 60]
    assert [line[0] for line in page.tables[0]] == ["partition", "all", "news"]


DRIVER = """
const said = [];
const labels = [...document.querySelectorAll(".filters label")];
const label = (text) => labels.find((one) => one.textContent.startsWith(text));
const state = () => [...document.querySelectorAll(".card")].map((c) => (c.hidden ? 0 : 1)).join("");
said.push(state());
label("wrong").click(); said.push(state(), label("correct").textContent);
label("invalid").click(); said.push(state());
label("b").click(); said.push(state(), label("wrong").textContent);
document.querySelector("#all").click(); said.push(state());
const search = document.querySelector("[type=search]"); search.value = "NO idea v2";
search.dispatchEvent(new Event("input"));
setTimeout(() => { said.push(state(), document.querySelector("#shown").textContent);
  search.value = "nowhere"; search.dispatchEvent(new Event("input"));
  setTimeout(() => { said.push(state(), document.querySelector(".empty").hidden);
    document.body.dataset.said = JSON.stringify(said); }, 400); }, 400);
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_filters_in_a_browser(tmp_path: Path) -> None:
    questions, answers, verdicts = four_outcomes()
    questions.append(iv_question(9, setting="b"))
    answers |= by_key([said(questions[-1], "A")])
    verdicts[questions[-1].id, "b"] = "A"
    write(tmp_path, questions, answers, verdicts, loads=False)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    text = re.sub(r"<meta http-equiv=[^>]*>", "", text).replace("</body>", f"<script>{DRIVER}</script></body>")
    (tmp_path / "driven.html").write_text(text, encoding="utf-8")
    command = [
        "chromium",
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--dump-dom",
        "--virtual-time-budget=9000",
    ]
    command += [f"--user-data-dir={tmp_path / 'profile'}", (tmp_path / "driven.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'data-said="([^"]*)"', done.stdout)
    assert found is not None, done.stderr[-2000:]
    assert json.loads(found[1].replace("&quot;", '"')) == [
        "111111", "010001", "correct 1", "011001", "000001", "wrong 1", "111111", "001000", "1", "000000", False,
    ]  # fmt: skip

"""Answers as Qwen2.5-VL, InternVL, GPT-4o, Gemini and LLaVA write them."""

from __future__ import annotations

import pytest

from muvr_train.rerank.parsing import parse_letter, parse_yes_no

TEN = tuple("ABCDEFGHIJ")

YES_OR_NO = [
    (
        "Yes, the candidate video matches the query. Both show the marked object, a black dog "
        "with a red collar, running on the beach.",
        "yes",
    ),
    (
        "No, the candidate video does not match the query. The query shows a person playing "
        "the guitar, while the candidate shows a cooking scene.",
        "no",
    ),
    (
        "Based on the frames provided, the candidate video shows the same event as the query. "
        "Therefore, the answer is yes.",
        "yes",
    ),
    (
        "The candidate video is not a match for the query, and it does not meet the condition. So the answer is no.",
        "no",
    ),
    ('Yes, the candidate video is a match for the query and meets the condition of not showing "night".', "yes"),
    (
        'No, the candidate video is a match for the query but it shows "subtitle", so it does not meet the condition.',
        "no",
    ),
    ('Yes, it is a match. However, the candidate does not meet the condition "must show aerial view".', None),
    (
        "The query video features a news anchor, whereas the candidate video features a "
        "football game. No, it is not a match.",
        "no",
    ),
    ("No, the candidate video is not a match for the query, nor does it meet the condition.", "no"),
    ("Yes, the candidate video is a match for the query, as no other building has this roof.", "yes"),
    ("yes, the same person appears in both.", "yes"),
    ("No.<|im_end|>", "no"),
    (
        "To determine whether the candidate is a match, I compare the buildings.\n\n1. "
        "**Query**: a white tower.\n2. **Candidate**: a white tower.\n\n**Conclusion**: Yes",
        "yes",
    ),
    ('Yes. The condition is that the candidate must not show "teaching video", and it does not show one.', "yes"),
    ("The answer is: No, because the candidate video shows the scene at night.", "no"),
    ("Yes, it is a match and meets the condition.", "yes"),
    ("No, it does not meet the condition.", "no"),
    ("No, the candidate video does not meet the condition, although yes, the event looks similar.", "no"),
    ("The candidate video is a match for the query. It also meets the condition. Answer: Yes", "yes"),
    ("**No**, the candidate does not contain the event that is described.", "no"),
    ("Yes\n\nYes", "yes"),
    ("I cannot determine from the frames whether the candidate is a match, so no.", "no"),
    ("It is unclear. If the person is the same, yes; otherwise, no.", None),
    ("Match: Yes; Condition: Yes; Final Answer: Yes", "yes"),
    ("Match - yes. Condition - no. Final verdict - no.", "no"),
    (
        "No, the candidate video doesn't appear to be a match. The query depicts a *parade*, "
        "but the frames show a *concert*.",
        "no",
    ),
    ("Yes — both clips show the same goal from different angles.", "yes"),
    ("I'm sorry, but I can't identify people in videos.", None),
    ("I can't tell who they are, but the scenes are the same, so yes.", "yes"),
    ("Not enough information to answer yes or no.", None),
    ("Short answer: no. The candidate is indoors; the query is outdoors.", "no"),
    ("Yes, with high confidence (0.92).", "yes"),
    ("No – while both show cats, it isn't the same cat.", "no"),
    ("While I'd normally say yes, the logo differs, so my answer is no.", "no"),
    ('Yes for the event; the tag "+night" isn\'t met, though.', None),
    ("It's a partial match: yes on the event, no on the tag.", None),
    ("Yes and no. The event matches, the tag does not.", None),
    ('Condition "no subtitles": met. Match: yes.', "yes"),
    (
        "Here's a breakdown:\n\n* **Match:** Yes, both show the eclipse.\n* **Condition:** No, "
        "it's daytime.\n\n**Final Answer: No**",
        "no",
    ),
    (
        'Here\'s a breakdown:\n\n* **Match:** Yes\n* **Condition (must show "crowd"):** Yes\n\nOverall: **Yes**',
        "yes",
    ),
    (
        "Here's why:\n* The query shows a red bus.\n* The candidate shows no red bus.\n\nSo the answer is **no**.",
        "no",
    ),
    ('```json\n{\n  "match": "yes",\n  "condition": "no",\n  "answer": "no"\n}\n```', "no"),
    ("The candidate video is **not** a match for the query. **No**", "no"),
    (
        "Let's think. The query: a cat. The candidate: a cat. Is it the same one? Yes. Does it "
        "meet the condition? Yes.",
        "yes",
    ),
    ("Is it the same event? Yes. Does it show night? No. Condition: must not show night. Answer: yes", "yes"),
    ("Yes, the candidate video is a match for the query, and it meets the condition.", "yes"),
    ("No, there is no person in the candidate video.", "no"),
    ("ASSISTANT: Yes", "yes"),
    ("The candidate video is a match for the query.", None),
    (
        "No, the candidate video is not a match for the query. In the query, there is a man "
        "with no hat. In the candidate, there are no people.",
        "no",
    ),
    ("Yes it does.", "yes"),
    ("No it does not.", "no"),
    ("Yes, no.", None),
    ("no, not the same dog", "no"),
    ("Yes, the two videos are not identical, but they show the same event.", "yes"),
]

LETTERS = [
    ("B. The second person from the left", "B"),
    (
        "The object in the image is a red cup. In the video, a red cup is on the table at the left.\n\nAnswer: C",
        "C",
    ),
    ("C. 3", "C"),
    ("D", "D"),
    ("The answer is D.", "D"),
    ("The correct answer is F. At the end of the video.", "F"),
    ("The person in the image appears third in the video, which corresponds to option C.", "C"),
    (
        "Based on the video, the man in the image is seen wearing a blue jacket. Therefore, "
        "the correct option is:\n\nE. Blue",
        "E",
    ),
    ("The image shows the letter B on a shirt, and the player with the letter B is last. Answer: H", "H"),
    ("The sign in the image is B. In the video there is no sign B.", None),
    ("The answer is H: none of the above.", "H"),
    ("Answer: J. Cannot be determined", "J"),
    ("A. A woman in a red dress", "A"),
    (
        "To determine the answer, compare:\n\nA. 1 - incorrect\nB. 2 - incorrect\nC. 3 - "
        "correct\n\nSo, the answer is C.",
        "C",
    ),
    ("I. 10:25", "I"),
    ("B", "B"),
    ("(G)", "G"),
    ("The correct option is **G. Left of the car**.", "G"),
    ("The video does not show the object in the image. However, the closest option is A.", "A"),
    ("Option D is the correct answer because the dog runs first.", "D"),
    ("The man in the image is person B.", None),
    ("The team that scores is A. The answer is B.", "B"),
    ("The chart's bar C is the highest, so the answer is E.", "E"),
    ("The license plate starts with the letter D.", None),
    ("His final grade is A.", None),
    ("The correct answer is **B) 5**.", "B"),
    ("I'm unable to view the video, but based on the options, the answer might be C.", None),
    ("I'm unable to view videos.", None),
    ("**C**", "C"),
    ("The best answer is **I. The third frame**.", "I"),
    ("It isn't A or B. The answer is D.", "D"),
    ("It could be B, but C fits better.", None),
    ("B is closest, though C is possible.", "B"),
    ("Not A, since the car is red; C.", "C"),
    ("The answer is not B but D.", "D"),
    ("Between B and C, I'd go with C.", "C"),
    ("Vitamin C is shown, so it's E.", "E"),
    ("A is incorrect; B is incorrect; C is correct.", "C"),
    ("The answer is A—the man in the hat.", "A"),
    ("A — the man in the hat", "A"),
    ("I would answer B.", "B"),
    ("The final answer is $\\boxed{F}$", "F"),
    (
        "Here's how we can solve it:\n\n1. **Image:** a dog.\n2. **Video:** the dog appears at "
        "0:12.\n\nThe answer is **A**.",
        "A",
    ),
    ('```json\n{"answer": "G", "explanation": "A person in B&W stands left"}\n```', "G"),
    ("The person takes vitamin B. So the answer is A. Vitamin B.", "A"),
    ("The correct sequence is A → C → B.", None),
    ("The correct order is C, A, B, so the answer is H.", "H"),
    ("**Answer:** (J) 45 seconds", "J"),
    ("The correct choice is E because the timer shows 3:05.", "E"),
    ("Final Answer: The final answer is D", "D"),
    ("A man is holding a guitar.", None),
    ("A: The man is holding a guitar", "A"),
    ("E: 5", "E"),
    ("The answer is E, A man is holding a guitar", "E"),
    ("I think the answer is G", "G"),
    ("USER: Which one? ASSISTANT: B", None),
    ("B, C, and D are wrong. A", None),
    ("option b", "B"),
    ("D: None", None),
    ("C++ is written on the board", None),
    ("Gate B is on the left. Answer with the letter: C", "C"),
    ("There is no right option. The answer is none.", None),
    ("The answer is in B.mp4", None),
    ("The answer is C or D, most likely D.", None),
    ("The letter is not visible in the image.", None),
    ("B?\n\nC", "C"),
]


@pytest.mark.parametrize(("text", "expected"), YES_OR_NO)
def test_yes_or_no(text: str, expected: str | None) -> None:
    assert parse_yes_no(text) == expected


@pytest.mark.parametrize(("text", "expected"), LETTERS)
def test_letters(text: str, expected: str | None) -> None:
    assert parse_letter(text, TEN) == expected

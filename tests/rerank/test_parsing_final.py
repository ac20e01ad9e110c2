"""Where the answer of a reasoning stands."""

from __future__ import annotations

import pytest

from muvr_train.rerank.answer_words import after_thinking
from muvr_train.rerank.parsing import final_part, parse_letter


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Final answer: B", "B"),
        ("The dog is left.\n\n**Final Answer:** (B)", "(B)"),
        ("**Final answer**: B", "B"),
        ("### Final Answer\nB. left", "B. left"),
        ("FINAL ANSWER - it is hard", "it is hard"),
        ("The final answer is B.", "B."),
        ("The final answer is: **B**", "B**"),
        ("Final answer: A? No. Final answer: C", "C"),
        ("I must end with 'Final answer: X'. The dog is left. Final answer: yes", "yes"),
        ("Final answer: ", ""),
        ("Final answer", ""),
        ("It is B", ""),
        ("", ""),
        (r"so $\boxed{D}$", "{D}$"),
        ("left <answer>B</answer>", "B</answer>"),
        (r"Final answer: \boxed{B}", "{B}"),
        ("<think>Final answer: A</think>It is B", ""),
        ("<think>A</think>Final answer: B", "B"),
        ("最终答案：B", "B"),
        ("final answer (B)", "(B)"),
        ("Final answer B", "B"),
        ("Final Answer – B", "B"),
        ('{"final_answer": "B"}', '"B"}'),
        ("My final answer would be B", "B"),
        ("Final answer; B", "B"),
        ("Final choice: B", "B"),
        ("final_answer = b", "b"),
        ("Final answer (one letter): B", "B"),
        ("Final answer yes", "yes"),
        ("Final answer A", "A"),
        ("Final answer A dog runs", ""),
        ("Final answer: B.\n\nNote: the final answer may vary.", "B.\n\nNote: the final answer may vary."),
        ("The final answer isn't B", ""),
        ("The dog is left.\n**Answer: B**", "**Answer: B**"),
        ("The dog is left.\n\nThe answer is B.", "The answer is B."),
        ("The dog is left. So the answer is B.", "So the answer is B."),
        ("The answer is A? No. I don't think the answer is B.", "I don't think the answer is B."),
        ("The dog is left.\nThe correct option is B. It is left.", "The correct option is B. It is left."),
        ("left\nAnswer:\nB", "B"),
        ("## Answer\n\n**B**", "**B**"),
        ('{\n  "reason": "left",\n  "answer": "B"\n}', '"answer": "B"'),
        ("The answer is B.\nLet me check that again", ""),
        ("答案：B", "答案：B"),
        ("The dog is left.\nB", ""),
        ("Answer: A\n\nFinal answer: B", "B"),
        ("Final answer: A\n\nAnswer: B", "A\n\nAnswer: B"),
        ("<think>The answer is A.</think>It is left. The answer is B.", "The answer is B."),
        ("B", "B"),
        ("<think>...</think>\n\nB", "B"),
        ("<think>x</think>\n\n**B**", "**B**"),
        ("(B)\n", "(B)"),
        ("Option B.", "Option B."),
        ("yes", "yes"),
        ("是的。", "是的。"),
        ("<think>B", ""),
        ("B\nC", ""),
        ("B. The dog", ""),
        ("A dog", ""),
        ("Answer: B.\n\n(Confidence: high)", "Answer: B."),
        ("Answer: B.\nConfidence: 95 %", "Answer: B."),
        ("Therefore, option B is the final answer.", "Therefore, option B is the final answer."),
        ("It is left. So B is the correct answer.", "So B is the correct answer."),
        ("It is left. I don't think B is the right option.", "I don't think B is the right option."),
        ("B is not the final answer.", ""),
    ],
)
def test_final_part(text: str, expected: str) -> None:
    assert final_part(text) == expected


def test_after_thinking() -> None:
    assert after_thinking("no thinking") == "no thinking"
    assert after_thinking("<think>a</think>b<think>c</think>d") == "d"
    assert after_thinking("<think>a</think>b<think>c") == "b"
    assert after_thinking("<THINK>a</THINK>b") == "b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The dog is left. Final answer (B)", "B"),
        ("The dog is left. Final Answer – B", "B"),
        ('{"reasoning": "A is seen", "final_answer": "B"}', "B"),
        ("It is A at first. My final answer would be B", "B"),
        ("A is seen.\n\n**Answer: B**", "B"),
        ("A is seen. The answer is B.", "B"),
        ("A is seen. If it were night, the answer is B.", None),
        ("I don't think the answer is B.", None),
        ("The answer is A or B.", None),
        ("A is seen, so it must be B.", None),
        ("Final answer (one letter): B", "B"),
        ("Final answer: A, no, B", None),
        ("Final answer: A\n\nAnswer: B", None),
        ("Therefore, option B is the final answer.", "B"),
        ("It is left. I don't think B is the right option.", None),
        ("<think>x</think>\n\n**B**", "B"),
        ("Answer: B.\n\n(Confidence: high)", "B"),
        ("Step 1: the sign is A.\nStep 2: so it is C.\n### Answer\nC. left", "C"),
    ],
)
def test_the_letter_of_a_reasoning(text: str, expected: str | None) -> None:
    assert parse_letter(final_part(text), tuple("ABCDEFGHIJ")) == expected

"""Yes and no in other languages."""

from __future__ import annotations

import pytest

from muvr_train.errors import ConfigError
from muvr_train.rerank.parsing import parse_yes_no
from muvr_train.rerank.yes_no import YES_NO, check_languages


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("zh", "是", "yes"),
        ("zh", "是的，两个视频是同一事件。", "yes"),
        ("zh", "不是。", "no"),
        ("zh", "否", "no"),
        ("zh", "答案：是", "yes"),
        ("zh", "答案是“否”。", "no"),
        ("zh", "<answer>是</answer>", "yes"),
        ("zh", "是不是同一个人？", None),
        ("zh", "不知道", None),
        ("es", "Sí, es el mismo perro.", "yes"),
        ("es", "No.", "no"),
        ("es", "La respuesta es no.", "no"),
        ("es", "No hay ninguna coincidencia", None),
        ("es", "Yes", None),
        ("fr", "Oui.", "yes"),
        ("fr", "**Non**, ce n'est pas le même chien.", "no"),
        ("fr", "Réponse : oui", "yes"),
        ("de", "Ja, derselbe Hund", "yes"),
        ("de", "Die Antwort ist nein.", "no"),
        ("de", "Ja und nein", None),
        ("pt", "Não.", "no"),
        ("pt", "Sim", "yes"),
        ("it", "Sì.", "yes"),
        ("it", "No, non è lui", "no"),
        ("ru", "Да, это то же здание.", "yes"),
        ("ru", "Ответ: нет", "no"),
        ("ru", "Нет совпадений", None),
        ("ja", "はい。", "yes"),
        ("ja", "いいえ、違います。", "no"),
        ("ja", "答えは「はい」です", "yes"),
        ("ko", "예", "yes"),
        ("ko", "아니요.", "no"),
        ("ko", "정답은 네", "yes"),
        ("ar", "نعم، نفس المبنى", "yes"),
        ("ar", "لا.", "no"),
        ("hi", "हाँ, वही कुत्ता", "yes"),
        ("hi", "नहीं।", "no"),
        ("nl", "Nee.", "no"),
        ("pl", "Tak.", "yes"),
        ("tr", "Hayır", "no"),
        ("tr", "HAYIR", "no"),
        ("tr", "EVET", "yes"),
        ("uk", "Ні.", "no"),
        ("vi", "Không.", "no"),
        ("id", "Tidak.", "no"),
    ],
)
def test_yes_or_no_of_other_languages(language: str, text: str, expected: str | None) -> None:
    assert parse_yes_no(text, [language]) == expected
    if language == "zh":
        assert parse_yes_no("Yes", ("en", language)) == "yes"
        assert parse_yes_no(text, ("en", language)) == expected


def test_every_language_has_both_words() -> None:
    for language in YES_NO:
        yes, no = ({parse_yes_no(word, [language]) for word in words.split()} for words in YES_NO[language])
        assert (yes, no) == ({"yes"}, {"no"})


def test_unknown_languages_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'esp'; did you mean es\? Known: en, zh"):
        parse_yes_no("yes", ["en", "esp"])
    with pytest.raises(ConfigError, match="must be a list such as"):
        check_languages([])
    with pytest.raises(ConfigError, match="must be a list such as"):
        check_languages("en")
    check_languages(tuple(YES_NO))

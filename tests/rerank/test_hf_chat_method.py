"""Models whose program code comes with them: nothing runs unless allowed, and MiniCPM-V's chat method is used."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muvr_train.errors import ConfigError, DataError
from muvr_train.rerank.answerers.hf import Transformers
from muvr_train.rerank.types import AnswerError, Picture
from tests.rerank.hf_requests import MIXED, clip, pixels, prepared, request
from tests.rerank.tiny_mllm import make_tokenizer

CONFIGURATION = """
from transformers import PretrainedConfig
{ran}
class TinyConfig(PretrainedConfig):
    model_type = "{kind}"
"""
MODEL = """
import torch
from transformers import PreTrainedModel
from .configuration_tiny import TinyConfig

class MiniCPMV(PreTrainedModel):
    config_class = TinyConfig

    def __init__(self, config):
        super().__init__(config)
        self.layer = torch.nn.Linear(2, 2)
        self.post_init()

    def chat(self, image, msgs, tokenizer, max_new_tokens=2048, sampling=True, stream=False, **kwargs):
        message, = msgs
        shown = [part if isinstance(part, str) else "%dx%d %s" % (*part.size, part.mode) for part in message["content"]]
        if "fail" in shown:
            raise ValueError("cannot be shown")
        facts = [message["role"], image, max_new_tokens, sampling, kwargs, self.training, torch.is_grad_enabled()]
        return repr((shown, facts, len(tokenizer)))
"""


def make(folder: Path, ran: Path | None = None, kind: str = "minicpmv", architecture: str = "MiniCPMV") -> Path:
    import torch
    from safetensors.torch import save_file

    folder.mkdir()
    note = "" if ran is None else f"open({str(ran)!r}, 'w').close()"
    (folder / "configuration_tiny.py").write_text(CONFIGURATION.format(ran=note, kind=kind))
    (folder / "modeling_tiny.py").write_text(MODEL)
    classes = {"AutoConfig": "configuration_tiny.TinyConfig", "AutoModel": "modeling_tiny.MiniCPMV"}
    facts = {"model_type": kind, "architectures": [architecture], "auto_map": classes}
    (folder / "config.json").write_text(json.dumps(facts))
    weights = {"layer.weight": torch.eye(2), "layer.bias": torch.zeros(2)}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    make_tokenizer({"image_token": "<image>"}).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", autouse=True)
def code_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where the package copies the code of models to: not the user's own folder."""
    with pytest.MonkeyPatch.context() as patch:
        cache = str(tmp_path_factory.mktemp("code"))
        patch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", cache)
        patch.setattr(sys, "path", [*sys.path])
        yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "transformers_modules"]:
        del sys.modules[name]


def test_code_of_a_model_runs_only_if_allowed(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    folder = make(tmp_path / "model", ran)
    with pytest.raises(ConfigError, match=r"configuration_tiny\.py, modeling_tiny\.py.*trust_remote_code=true"):
        Transformers(str(folder)).prepare()
    assert not ran.exists()
    prepared(folder, trust_remote_code=True)
    assert ran.exists()


def test_its_chat_method_is_given_pictures_frames_and_texts_in_order(tmp_path: Path) -> None:
    answerer = prepared(make(tmp_path / "model"), trust_remote_code=True, processor={"max_slice_nums": 1})
    reply = answerer.answer(request((*MIXED, clip(2, 30, 20), "in <image>?"), max_tokens=7))
    shown = ["60x40 RGB", MIXED[1], *["60x40 RGB"] * 4, MIXED[3], *["20x30 RGB"] * 2, "in < image>?"]
    options = {"num_beams": 1, "repetition_penalty": 1.0, "max_slice_nums": 1}
    length = len(make_tokenizer({"image_token": "<image>"}))
    assert reply.text == repr((shown, ["user", None, 7, False, options, False, False], length))
    assert reply.tokens is None
    answerer.warm_up([request().question])
    with pytest.raises(AnswerError, match="ValueError: cannot be shown"):
        answerer.answer(request(("fail",)))
    assert "60x40" in answerer.answer(request((Picture(pixels(40, 60)),))).text


def test_other_code_cannot_be_asked_by_a_chat_template(tmp_path: Path) -> None:
    folder = make(tmp_path / "model", kind="other_chat", architecture="OtherChatModel")
    with pytest.raises(DataError, match=r"other_chat, its own code cannot be asked by a chat template.*openai"):
        Transformers(str(folder), trust_remote_code=True).prepare()


def test_code_for_another_release_is_named(tmp_path: Path) -> None:
    folder = make(tmp_path / "older")
    path = folder / "modeling_tiny.py"
    path.write_text(path.read_text().replace("import torch\n", "import torch\nfrom transformers import Gone\n", 1))
    with pytest.raises((ConfigError, DataError), match="Gone"):
        Transformers(str(folder), trust_remote_code=True).prepare()
    path.write_text(MODEL.replace("self.post_init()", "self.gone()"))
    with pytest.raises(DataError, match=r"AttributeError.*gone.*its own code may be for another release"):
        Transformers(str(folder), trust_remote_code=True).prepare()


def test_the_code_of_a_model_belongs_to_its_identity(tmp_path: Path) -> None:
    folder = make(tmp_path / "model")
    before = Transformers(str(folder)).identity()
    (folder / "modeling_tiny.py").write_text(MODEL + "# changed\n")
    assert Transformers(str(folder)).identity() != before

"""Loads a model of the `transformers` package from a folder, or says what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muvr_train.errors import ConfigError, DataError, shorten
from muvr_train.rerank.answerers.hf_chat import Chat, MethodChat, TemplateChat
from muvr_train.rerank.answerers.hf_folder import first_line
from muvr_train.rerank.answerers.hf_inputs import InputSettings, bound_pixels
from muvr_train.rerank.answerers.hf_internvl import InternVLChat
from muvr_train.rerank.answerers.setting_checks import check_number

INSTALL = "pip install 'muvr-train[mllm]'"
SPREAD = ("auto", "balanced", "balanced_low_0", "sequential")
"""Values of device_map that spread a model over devices; any other one is a single device."""
OWN = {"MiniCPM": "minicpm_v", "InternVLChatModel": "internvl_chat"}
"""Interfaces of models that come with code, by how their architecture's name begins."""
ELSEWHERE = "take another model, or ask this one by a server (answerer=openai) or a class of your own"


@dataclass(frozen=True)
class LoadSettings:
    """How a model is loaded; see `Transformers`."""

    dtype: str = "auto"
    device_map: str | None = None
    attention: str | None = None
    trust_remote_code: bool = False
    interface: str = "auto"


def load_chat(model: str, folder: Path, settings: LoadSettings, inputs: InputSettings) -> Chat:
    """Load model and processor.

    Args:
        model: what the user calls it, for messages.
        folder: with configuration and weights.
        settings: how it is loaded.
        inputs: how questions are shown.

    Raises:
        ConfigError: a package is missing, the model's own code is not allowed, or a setting does not fit the model.
        DataError: the model cannot be loaded or is not one for images and texts.
    """
    facts = read_config(model, folder)
    with _explained(model, folder, settings, facts):
        interface = interface_of(facts, settings.interface)
        if interface == "chat_template":
            return _template_chat(model, folder, settings, inputs)
        return _method_chat(model, folder, settings, inputs, interface)


def read_config(model: str, folder: Path) -> Mapping[str, Any]:
    """Read config.json.

    Raises:
        DataError: it is broken, or the model is one that has its own programs.
    """
    path = folder / "config.json"
    try:
        facts = dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise DataError(f"answerer.model={model}: {path} is no configuration ({first_line(error)})") from error
    if "videorefer" in str([facts.get("model_type"), facts.get("architectures")]).lower():
        raise DataError(
            f"answerer.model={model}: VideoRefer has a package of its own, for an old release of transformers; answer "
            "questions.jsonl with it and give the answers with answerer=file, or write a class of your own"
        )
    return facts


def interface_of(facts: Mapping[str, Any], interface: str) -> str:
    """Choose how to ask: the own code of MiniCPM-V and InternVL has a chat method, all others have a chat template."""
    architecture = str(next(iter(facts.get("architectures") or [""]))) if "auto_map" in facts else ""
    own = next((name for start, name in OWN.items() if architecture.startswith(start)), "chat_template")
    return own if interface == "auto" else interface


def _template_chat(model: str, folder: Path, settings: LoadSettings, inputs: InputSettings) -> Chat:
    from transformers import (
        MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
        AutoConfig,
        AutoModelForImageTextToText,
        AutoProcessor,
    )

    config = AutoConfig.from_pretrained(str(folder), trust_remote_code=settings.trust_remote_code)
    own = getattr(config, "auto_map", None) or {}
    if type(config) not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING and AutoModelForImageTextToText.__name__ not in own:
        reason = "its own code cannot be asked by a chat template" if own else "it does not answer about images"
        raise DataError(f"answerer.model={model}: a model of the type {config.model_type}, {reason}; {ELSEWHERE}")
    processor = AutoProcessor.from_pretrained(str(folder), trust_remote_code=settings.trust_remote_code)
    if getattr(processor, "image_processor", None) is None:
        raise DataError(f"answerer.model={model}: {folder} has no configuration of a processor of images")
    processor.chat_template = processor.chat_template or getattr(processor.tokenizer, "chat_template", None)
    if not processor.chat_template:
        raise DataError(
            f"answerer.model={model}: has no chat template; take the variant that was trained to chat (often -Instruct "
            f"or -hf), or put its chat_template.jinja into {folder}"
        )
    if not bound_pixels(processor, inputs) and (inputs.max_pixels or inputs.min_pixels):
        raise ConfigError(
            f"answerer.max_pixels, min_pixels: {type(processor.image_processor).__name__} of {model} has no such "
            "bounds; use benchmark.resolution, or answerer.processor with options that it has"
        )
    return TemplateChat(_model(AutoModelForImageTextToText, folder, settings), processor, inputs)


def _method_chat(model: str, folder: Path, settings: LoadSettings, inputs: InputSettings, interface: str) -> Chat:
    from transformers import AutoModel, AutoTokenizer

    if inputs.clip_as == "video" or inputs.max_pixels or inputs.min_pixels or inputs.template:
        raise ConfigError(
            f"answerer.model={model} is asked by its own chat method, which takes frames only: leave clip_as=frames, "
            "and max_pixels, min_pixels and template unset"
        )
    if interface == "internvl_chat":
        check_number("processor.max_num", inputs.processor.get("max_num", 1), 1, whole=True)
        if other := sorted(set(inputs.processor) - {"max_num"}):
            raise ConfigError(f"answerer.processor.{other[0]}: of InternVL's chat method only max_num can be set")
    tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=settings.trust_remote_code)
    loaded = _model(AutoModel, folder, settings)
    if not callable(getattr(loaded, "chat", None)):
        raise ConfigError(f"answerer.interface={interface}: {type(loaded).__name__} of {model} has no method chat")
    if interface == "minicpm_v":
        return MethodChat(loaded, tokenizer, inputs)
    if not hasattr(getattr(loaded, "language_model", loaded), "generate"):
        raise ConfigError(
            f"answerer.model={model}: its own code is for transformers before 4.50: say pip install "
            "'transformers==4.49.*', or ask it by a server (answerer=openai)"
        )
    return InternVLChat(loaded, tokenizer, inputs)


def _model(kind: Any, folder: Path, settings: LoadSettings) -> Any:
    """Load weights, all of them, and put the model on its device."""
    import transformers

    spread = settings.device_map in SPREAD
    device = None if spread else _device(settings.device_map)
    release = tuple(int(part) for part in transformers.__version__.split(".")[:2])
    options: dict[str, Any] = {"dtype" if release >= (4, 56) else "torch_dtype": settings.dtype}
    if settings.attention is not None:
        options["attn_implementation"] = settings.attention
    if spread:
        options["device_map"] = settings.device_map
    model, info = kind.from_pretrained(
        str(folder), trust_remote_code=settings.trust_remote_code, output_loading_info=True, **options
    )
    missing = sorted(str(name) for name in info["missing_keys"])
    if missing:
        raise DataError(f"{folder}: its weights lack {len(missing)} parts of the model: {shorten(missing, 4)}")
    return (model if device is None else model.to(device)).eval()


def _device(name: str | None) -> Any:
    """Give a single device, the best one that is there unless it is named."""
    import torch

    if name is None:
        return torch.device(
            "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        )
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # no such kind, none here, or torch was built without it
        raise ConfigError(
            f"answerer.device_map={name} cannot be used: {first_line(error)}; null takes the best device, {SPREAD[0]} "
            "spreads the model over all"
        ) from error
    return device


@contextmanager
def _explained(model: str, folder: Path, settings: LoadSettings, facts: Mapping[str, Any]) -> Iterator[None]:
    """Turn what loading raises into errors that say what to do."""
    import transformers
    from safetensors import SafetensorError

    kind, at = facts.get("model_type"), f"answerer.model={model}"
    code = sorted(path.name for path in folder.glob("*.py"))
    try:
        yield
    except ImportError as error:
        if settings.attention is not None and "ttention" in str(error):
            raise ConfigError(f"answerer.attention={settings.attention}: {first_line(error)}") from error
        raise ConfigError(f"{at}: {first_line(error)}; {INSTALL} brings what the tested models need") from error
    except (OSError, ValueError, RuntimeError, KeyError, AttributeError, TypeError, SafetensorError) as error:
        text = str(error)
        if "trust_remote_code" in text:
            raise ConfigError(
                f"{at}: {kind} needs program code that comes with the model ({shorten(code, 4) or 'from the hub'}); "
                "read it, and if you trust it set answerer.trust_remote_code=true. Some such models have a variant "
                "without, named -hf"
            ) from error
        if "attn_implementation" in text:
            raise ConfigError(f"answerer.attention={settings.attention}: {first_line(error)}") from error
        if "accelerate" in text:
            raise ConfigError(
                f"answerer.device_map={settings.device_map} needs another package: pip install accelerate"
            ) from error
        if "out of memory" in text:
            raise DataError(
                f"{at}: does not fit into the memory of the device; set answerer.dtype=bfloat16, or spread it over "
                "several GPUs with answerer.device_map=auto"
            ) from error
        own = "; its own code may be for another release" if settings.trust_remote_code and code else ""
        raise DataError(
            f"{at}: cannot be loaded with transformers {transformers.__version__}: {type(error).__name__}: "
            f"{first_line(error)}{own}. Is it complete, and known to this release?"
        ) from error

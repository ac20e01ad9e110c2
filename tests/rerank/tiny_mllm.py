"""Multimodal language models of real architectures, tiny and with random weights, saved as users have them on disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "internvl", "llava_onevision", "smolvlm")
SENTENCES = [
    "Does the video show the same event? Answer yes or no.",
    "Yes yes No no YES NO yes. no. Yes, the answer is yes. No, the answer is no.",
    "Which of these is right? A B C D E F G H I J. Answer with the letter only.",
    "The query, the target, a dog on the beach, frames of a video, and its images.",
]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}IMAGE{% elif part['type'] == 'video' %}VIDEO"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
QWEN_TOKENS = {
    "image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
    "vision_start_token": "<|vision_start|>",
    "vision_end_token": "<|vision_end|>",
}
INTERN_TOKENS = {
    "start_image_token": "<img>",
    "end_image_token": "</img>",
    "context_image_token": "<IMG_CONTEXT>",
    "video_token": "<video>",
}
LLAVA_TOKENS = {"image_token": "<image>", "video_token": "<video>"}
SMOL_TOKENS = {
    "image_token": "<image>",
    "video_token": "<video>",
    "fake_image_token": "<fake_token_around_image>",
    "global_image_token": "<global-img>",
    "end_of_utterance_token": "<end_of_utterance>",
}
TEXT: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
TEXT |= {"num_key_value_heads": 2, "max_position_embeddings": 4096, "bos_token_id": None, "eos_token_id": None}


def make_tokenizer(special: dict[str, str]) -> Any:
    """A byte-level BPE, so that any text is encoded without loss; "yes", " No" and letters are single tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *special.values()]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, min_frequency=1, special_tokens=tokens, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES * 5, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        model_input_names=["input_ids", "attention_mask"],
        extra_special_tokens={"im_start_token": "<|im_start|>", **special},
    )


def _template(image: str, video: str) -> str:
    return TEMPLATE.replace("IMAGE", image).replace("VIDEO", video)


def _qwen(kind: str) -> tuple[Any, Any]:
    import transformers as t

    tokenizer = make_tokenizer(QWEN_TOKENS)
    ids = {f"{name}_id": tokenizer.convert_tokens_to_ids(text) for name, text in QWEN_TOKENS.items()}
    patch = 16 if kind == "qwen3_vl" else 14
    text: dict[str, Any] = {**TEXT, "vocab_size": len(tokenizer)}
    text |= {"rope_theta": 10000.0, "rope_scaling": {"rope_type": "default", "mrope_section": [1, 1, 2]}}
    vision: dict[str, Any] = {"depth": 2, "num_heads": 2, "patch_size": patch}
    bounds = {"shortest_edge": (2 * patch) ** 2, "longest_edge": (4 * patch) ** 2}
    if kind == "qwen2_vl":
        vision |= {"embed_dim": 16, "hidden_size": 32}
        config: Any = t.Qwen2VLConfig(text_config=text, vision_config=vision, **ids)
        model: Any = t.Qwen2VLForConditionalGeneration(config)
        names: tuple[Any, Any, Any] = (t.Qwen2VLProcessor, t.Qwen2VLImageProcessor, t.Qwen2VLVideoProcessor)
    elif kind == "qwen2_5_vl":
        vision |= {"hidden_size": 16, "out_hidden_size": 32, "intermediate_size": 32, "fullatt_block_indexes": [1]}
        config = t.Qwen2_5_VLConfig(text_config=text, vision_config=vision, **ids)
        model = t.Qwen2_5_VLForConditionalGeneration(config)
        names = (t.Qwen2_5_VLProcessor, t.Qwen2VLImageProcessor, t.Qwen2VLVideoProcessor)
    else:
        text |= {"head_dim": 8}
        text["rope_scaling"] |= {"mrope_interleaved": True}
        vision |= {"hidden_size": 16, "out_hidden_size": 32, "intermediate_size": 32, "num_position_embeddings": 16}
        config = t.Qwen3VLConfig(text_config=text, vision_config={**vision, "deepstack_visual_indexes": [0]}, **ids)
        model = t.Qwen3VLForConditionalGeneration(config)
        names = (t.Qwen3VLProcessor, t.Qwen2VLImageProcessor, t.Qwen3VLVideoProcessor)
        bounds["longest_edge"] *= 4  # of a whole video
    processor = names[0](
        image_processor=names[1](size=bounds, patch_size=patch),
        tokenizer=tokenizer,
        video_processor=names[2](size=bounds, patch_size=patch),
        chat_template=_template(
            "<|vision_start|><|image_pad|><|vision_end|>", "<|vision_start|><|video_pad|><|vision_end|>"
        ),
    )
    return model, processor


def _internvl() -> tuple[Any, Any]:
    import transformers as t

    tokenizer = make_tokenizer(INTERN_TOKENS)
    config = t.InternVLConfig(
        text_config={**TEXT, "model_type": "qwen2", "vocab_size": len(tokenizer)},
        vision_config={
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 32,
            "image_size": [28, 28],
            "patch_size": [7, 7],
        },
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=4,
        tie_word_embeddings=False,
    )
    size = {"height": 28, "width": 28}
    processor = t.InternVLProcessor(
        image_processor=t.GotOcr2ImageProcessor(size=size, crop_to_patches=True, max_patches=3),
        tokenizer=tokenizer,
        video_processor=t.InternVLVideoProcessor(size=size),
        image_seq_length=4,
        chat_template=_template("<IMG_CONTEXT>\n", "<video>\n"),
    )
    return t.InternVLForConditionalGeneration(config), processor


def _llava_onevision() -> tuple[Any, Any]:
    import transformers as t

    tokenizer = make_tokenizer(LLAVA_TOKENS)
    pinpoints = [[28, 28], [28, 56], [56, 28], [56, 56]]
    config = t.LlavaOnevisionConfig(
        text_config={**TEXT, "model_type": "qwen2", "vocab_size": len(tokenizer)},
        vision_config={
            "model_type": "siglip_vision_model",
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 32,
            "image_size": 28,
            "patch_size": 7,
            "vision_use_head": False,
        },
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        video_token_index=tokenizer.convert_tokens_to_ids("<video>"),
        image_grid_pinpoints=pinpoints,
    )
    size = {"height": 28, "width": 28}
    processor = t.LlavaOnevisionProcessor(
        image_processor=t.LlavaOnevisionImageProcessor(size=size, image_grid_pinpoints=pinpoints),
        tokenizer=tokenizer,
        video_processor=t.LlavaOnevisionVideoProcessor(size=size),
        num_image_tokens=16,
        vision_feature_select_strategy="full",
        chat_template=_template("<image>\n", "<video>\n"),
    )
    return t.LlavaOnevisionForConditionalGeneration(config), processor


def _smolvlm() -> tuple[Any, Any]:
    import transformers as t

    grid = {f"row_{row}_col_{column}": f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5)}
    tokenizer = make_tokenizer({**SMOL_TOKENS, **grid})
    text = {**TEXT, "model_type": "llama", "vocab_size": len(tokenizer)}
    text |= {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    config = t.SmolVLMConfig(
        text_config=text,
        vision_config={
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 32,
            "image_size": 28,
            "patch_size": 7,
        },
        scale_factor=2,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
    )
    longest = {"longest_edge": 28}
    processor = t.SmolVLMProcessor(
        image_processor=t.SmolVLMImageProcessor(size={"longest_edge": 56}, max_image_size=longest),
        tokenizer=tokenizer,
        video_processor=t.SmolVLMVideoProcessor(size=longest, max_image_size=longest, num_frames=4, fps=1),
        image_seq_len=4,
        chat_template=_template("<image>", "<video>"),
    )
    return t.SmolVLMForConditionalGeneration(config), processor


BUILDERS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "qwen2_vl": lambda: _qwen("qwen2_vl"),
    "qwen2_5_vl": lambda: _qwen("qwen2_5_vl"),
    "qwen3_vl": lambda: _qwen("qwen3_vl"),
    "internvl": _internvl,
    "llava_onevision": _llava_onevision,
    "smolvlm": _smolvlm,
}


def build(family: str, folder: Path, seed: int = 0, **generation: Any) -> Path:
    """Save a model of `family` under `folder`: configuration, weights, tokenizer, processor, chat template.

    Args:
        family: one of FAMILIES.
        folder: made if it is not there.
        seed: of the weights.
        generation: further values of generation_config.json.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, processor = BUILDERS[family]()
        for parameter in model.parameters():  # so large that answers differ between pictures
            if parameter.ndim > 1:
                torch.nn.init.normal_(parameter, std=0.2)
        marks = list(processor.tokenizer.added_tokens_decoder)
        model.get_output_embeddings().weight.data[marks] = 0  # answers hold no marks of pictures
    model.generation_config.eos_token_id = processor.tokenizer.eos_token_id
    model.generation_config.pad_token_id = processor.tokenizer.pad_token_id
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    path = folder / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **generation}))
    return folder
